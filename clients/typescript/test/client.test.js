// Against a running API: RAILHEAD_API and RAILHEAD_TOKEN, of participant p1, name it. Where
// RAILHEAD_LOSSY is set it is the API behind a proxy that loses answers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NotSentError, Railhead, RailheadError, UnknownOutcomeError } from '../dist/index.js'

const baseUrl = process.env.RAILHEAD_API
const token = process.env.RAILHEAD_TOKEN
assert.ok(baseUrl && token, 'RAILHEAD_API and RAILHEAD_TOKEN name the API to test against')
const client = new Railhead({ baseUrl, token })
const run = Date.now().toString(36)

const instruction = (n) => ({
  instruction_id: `ts-${run}-${n}`, participant_id: 'p1', rail_type: 'bank',
  payload: { amount: '10.50', currency: 'EUR', debtor: { account: 'a' }, creditor: { account: 'b' } },
})
const type = 'https://github.com/railhead-pay/railhead/blob/main/docs/problems/unavailable.md'
// The lines of an answer, with the instructions that the lines of the call ask for.
const answering = (init, lines) => {
  const asked = String(init.body).trim().split('\n').map((line) => JSON.parse(line))
  return new Response(lines.map((line) => JSON.stringify({ ...line, ...(line.instruction && { instruction: { outbox_id: 'x', state: 'PENDING', ...asked[line.line - 1] } }), ...(line.problem && { problem: { type, ...line.problem } }) }) + '\n').join(''))
}
const key = (n) => ({ idempotencyKey: `ts-${run}-${n}-key` })

test('enqueue, and the same again', async () => {
  const first = await client.enqueue(instruction(1), key(1))
  const again = await client.enqueue(instruction(1), key(1))
  assert.equal(first.replayed, false)
  assert.equal(again.replayed, true)
  assert.equal(again.outbox_id, first.outbox_id)
  const found = await client.get(first.outbox_id.toUpperCase())
  assert.equal(found.idempotency_key, key(1).idempotencyKey)
  assert.ok(Array.isArray((await client.attempts(first.outbox_id)).items))
})

test('refusals', async () => {
  await client.enqueue(instruction(2), key(2))
  const refused = (promise, status, code) => assert.rejects(promise, (e) => e instanceof RailheadError && e.status === status && e.problem.code === code)
  await refused(client.enqueue({ ...instruction(2), payload: { amount: '11.00', currency: 'EUR' } }, key(2)), 409, 'RH001')
  await refused(client.enqueue(instruction(2), key('other')), 409, 'RH007')
  await refused(client.enqueue({ ...instruction(3), payload: { amount: '1.001', currency: 'EUR' } }, key(3)), 422, 'RH002')
  await refused(client.enqueue({ ...instruction(3), participant_id: 'p2' }, key(3)), 403, 'RH031')
  await assert.rejects(client.get('019aa000-0000-7000-8000-000000000000'), (e) => e.status === 404)
  await assert.rejects(new Railhead({ baseUrl, token: 'rht_none' }).list({ participantId: 'p1' }), (e) => e.status === 401)
  assert.throws(() => client.enqueue(instruction(3), {}), TypeError)
})

test('pages', async () => {
  for (let n = 10; n < 15; n++) await client.enqueue(instruction(n), key(n))
  const ids = []
  for await (const each of client.listAll({ participantId: 'p1', limit: 2 })) ids.push(each.instruction_id)
  for (let n = 10; n < 15; n++) assert.equal(ids.filter((id) => id === `ts-${run}-${n}`).length, 1)
  const one = await client.list({ participantId: 'p1', idempotencyKey: key(12).idempotencyKey })
  assert.equal(one.items.length, 1)
})

test('a batch', async () => {
  const all = Array.from({ length: 30 }, (_, n) => ({ ...instruction(100 + n), idempotency_key: key(100 + n).idempotencyKey }))
  all.push({ ...instruction(200), idempotency_key: 'k', participant_id: 'p2' })
  const lines = await client.enqueueBatch(all)
  assert.equal(lines.length, 31)
  assert.ok(lines.slice(0, 30).every((line, n) => line.line === n + 1 && line.status === 201 && line.instruction.instruction_id === all[n].instruction_id))
  assert.equal(lines[30].status, 403)
})

test('a cancel', async () => {
  const later = new Date(Date.now() + 3_600_000).toISOString()
  const made = await client.enqueue({ ...instruction(300), not_before: later }, key(300))
  assert.equal((await client.cancel(made.outbox_id, 'withdrawn')).state, 'CANCELLED')
  assert.equal((await client.cancel(made.outbox_id, 'withdrawn')).state, 'CANCELLED')
})

test('answers that are lost', async () => {
  let calls = 0
  const lossy = async (url, init) => {
    const answer = await fetch(url, init)
    if (++calls % 3 !== 0) {
      await answer.text()
      throw new TypeError('the answer was lost')
    }
    return answer
  }
  const patient = new Railhead({ baseUrl, token, fetch: lossy, backoffMs: 1 })
  for (let n = 400; n < 405; n++) {
    const made = await patient.enqueue(instruction(n), key(n))
    assert.equal(made.replayed, true) // the first answer was lost, and the instruction is one
  }
  assert.equal((await client.list({ participantId: 'p1', instructionId: `ts-${run}-400` })).items.length, 1)
  const unanswered = new Railhead({ baseUrl, token, attempts: 2, backoffMs: 1, fetch: async () => { throw new TypeError('no answer') } })
  await assert.rejects(unanswered.enqueue(instruction(500), key(500)), (e) => e instanceof UnknownOutcomeError && e.idempotencyKey === key(500).idempotencyKey)
})

test('an end by the caller', async () => {
  const ended = AbortSignal.abort(new Error('enough'))
  await assert.rejects(client.enqueue(instruction(600), { ...key(600), signal: ended }))
})

test('a batch under a quota', async () => {
  const all = Array.from({ length: 8 }, (_, n) => ({ ...instruction(700 + n), idempotency_key: key(700 + n).idempotencyKey }))
  let calls = 0
  const scripted = new Railhead({
    baseUrl, token, attempts: 2, backoffMs: 1,
    fetch: async (_, init) => {
      const after = ++calls === 1 ? 1 : undefined
      return answering(init, String(init.body).trim().split('\n').map((_, n) => (
        n < 2 ? { line: n + 1, status: 201, instruction: {} } : { line: n + 1, status: 429, problem: { title: 'over', status: 429, retry_after: after } })))
    },
  })
  const began = Date.now()
  const lines = await scripted.enqueueBatch(all)
  assert.ok(lines.every((line) => line.status === 201))
  assert.equal(calls, 4) // more than the attempts of a call: each has ended two lines
  assert.ok(Date.now() - began >= 1000) // as asked
})

test('an earlier attempt may have stored', async () => {
  const problem = (status, commit) => ({ status, text: JSON.stringify({ type, title: 'refused', status, commit }) })
  const none = problem(503, 'none'), unknown = problem(503, 'unknown'), expired = problem(401), cut = { status: 201, text: '{"outbox' }
  const line = (status, commit) => ({ status: 200, text: JSON.stringify({ line: 1, status, problem: { type, title: 'refused', status, commit } }) + '\n' })
  const lost = undefined
  const cases = [
    [false, [none], RailheadError], [false, [expired], RailheadError], [false, [none, expired], RailheadError],
    [false, [cut, none], UnknownOutcomeError], [false, [none, unknown, none], UnknownOutcomeError], [false, [unknown, expired], UnknownOutcomeError],
    [false, [lost, none], UnknownOutcomeError], [false, [lost, expired], UnknownOutcomeError],
    [true, [none, line(503, 'none'), line(422)], 422], [true, [lost, line(422)], UnknownOutcomeError], [true, [line(503, 'unknown'), line(503, 'none')], UnknownOutcomeError],
    [true, [lost, expired], UnknownOutcomeError], [true, [unknown, expired], UnknownOutcomeError], [true, [expired], RailheadError],
    [true, [{ status: 200, text: '' }, line(503, 'none')], UnknownOutcomeError], [true, [line(503, 'none')], 503],
  ]
  for (const [batch, says, want] of cases) {
    let calls = 0
    const scripted = new Railhead({
      baseUrl, token, attempts: 4, backoffMs: 1,
      fetch: async () => {
        const said = says[Math.min(calls++, says.length - 1)]
        if (said === lost) throw new TypeError('the answer was lost')
        return new Response(said.text, { status: said.status })
      },
    })
    const what = JSON.stringify([batch, says])
    const call = batch ? scripted.enqueueBatch([{ ...instruction(900), idempotency_key: 'k' }]) : scripted.enqueue(instruction(900), key(900))
    if (typeof want === 'number') assert.equal((await call)[0].status, want, what)
    else await assert.rejects(call, want, what)
  }
})

test('lines that were not read', async () => {
  const stored = (line) => ({ line, status: 201, instruction: {} })
  const wrong = (line) => ({ line, status: 422, problem: { title: 'refused', status: 422 } })
  const end = (status, lines, commit, retry_after) => ({ end: true, status, lines, ...(status !== 200 && { problem: { title: 'ended', status, commit, retry_after } }) })
  const cases = [
    // What is behind the end line's lines is not in doubt; before them, and without an end line, it is.
    [[[stored(1), end(503, 1, 'none', 1)], [wrong(1)]], [201, 422], 2, 1000],
    [[[end(503, undefined, 'none')], [stored(1), wrong(2), end(200, 2)]], [201, 422], 2],
    [[[end(503, 1, 'none')], [wrong(1), wrong(2), end(200, 2)]], UnknownOutcomeError, 5],
    [[[stored(1)], [wrong(1)]], UnknownOutcomeError, 4],
    [[[stored(1)], [end(503, undefined, 'none')]], UnknownOutcomeError, 4],
    [[[{ line: 1, status: 503, problem: { title: 'unknown', status: 503, commit: 'unknown' } }, end(503, 1, 'unknown')], [stored(1), wrong(2), end(200, 2)]], [201, 422], 2],
    [[[end(413)]], (e) => e instanceof RailheadError && e.retryable && !e.mayBeDone, 3],
    [[[end(200)]], (e) => e instanceof RailheadError && e.retryable && !e.mayBeDone, 3],
  ]
  for (const [says, want, attempts, waits = 0] of cases) {
    let calls = 0
    const scripted = new Railhead({
      baseUrl, token, attempts: 3, backoffMs: 1,
      fetch: async (_, init) => answering(init, says[Math.min(calls++, says.length - 1)]),
    })
    const what = JSON.stringify(says)
    const began = Date.now()
    const call = scripted.enqueueBatch([901, 902].map((n) => ({ ...instruction(n), idempotency_key: `k-${n}` })))
    if (Array.isArray(want)) assert.deepEqual((await call).map((line) => line.status), want, what)
    else await assert.rejects(call, want, what)
    assert.ok(Date.now() - began >= waits, what)
    assert.equal(calls, attempts, what)
  }
})

test('without a token nothing is sent', async () => {
  for (const given of [0, 1]) {
    for (const way of ['one', 'batch', 'get']) {
      let asked = 0, sent = 0
      const scripted = new Railhead({
        baseUrl, attempts: 3, backoffMs: 1,
        token: async () => {
          if (asked++ >= given) throw new Error('the vault is sealed')
          return token
        },
        fetch: async () => {
          sent++
          throw new TypeError('the answer was lost')
        },
      })
      const call = { one: () => scripted.enqueue(instruction(910), key(910)), get: () => scripted.get('x'), batch: () => scripted.enqueueBatch([{ ...instruction(910), idempotency_key: 'k' }]) }
      const doubted = given > 0 && way !== 'get' // an earlier attempt may have stored it
      await assert.rejects(call[way](), (e) => (doubted ? e instanceof UnknownOutcomeError : e instanceof NotSentError && e.cause.message === 'the vault is sealed'), way)
      assert.deepEqual([asked, sent], [3, given], way)
    }
  }
})

test('a batch that is stored in part', async () => {
  const line = (line, status) => ({ line, status, ...(status < 300 ? { instruction: {} } : { problem: { title: 'refused', status } }) })
  const end = (lines) => ({ end: true, status: 503, lines, problem: { type, title: 'ended', status: 503, commit: 'none' } })
  const sealed = new Error('the vault is sealed'), enough = new Error('enough')
  const refused = (status) => (e) => e instanceof RailheadError && e.status === status && !e.mayBeDone
  const notSent = (e) => e instanceof NotSentError && e.cause === sealed
  const cases = [ // after the first answer
    ['never read', { says: [end()] }, refused(503)],
    ['expired', { status: 401, says: [{ type, title: 'expired' }] }, refused(401)],
    ['no token', { failed: sealed }, notSent],
    ['ended in a pause', { stops: 'pause' }, (e) => e === enough],
    ['ended with a token', { stops: 'token' }, (e) => e === enough],
    ['ended without a token', { failed: sealed, stops: 'token' }, (e) => e === enough],
  ]
  for (const [what, { says, status = 200, failed, stops }, want] of cases) {
    for (const begins of [201, 422, undefined]) {
      const stop = new AbortController()
      let asked = 0, sent = 0
      const scripted = new Railhead({
        baseUrl, attempts: 3, backoffMs: stops === 'pause' ? 60_000 : 1,
        token: async () => {
          if (asked++ === 0) return token
          if (stops === 'token') stop.abort(enough)
          if (failed) throw failed
          return token
        },
        fetch: async (_, init) => {
          init.signal.throwIfAborted()
          if (sent++ === 0) {
            if (stops === 'pause') setTimeout(() => stop.abort(enough), 20)
            return answering(init, begins ? [line(1, begins), end(1)] : [end()])
          }
          return new Response(says.map((each) => JSON.stringify(each) + '\n').join(''), { status })
        },
      })
      const call = scripted.enqueueBatch([920, 921].map((n) => ({ ...instruction(n), idempotency_key: `k-${n}` })), { signal: stop.signal })
      await assert.rejects(call, (e) => (begins === 201 ? e instanceof UnknownOutcomeError && want(e.cause) : want(e)), `${what}, after ${begins}`)
    }
  }
})

test('an end by the caller after a lost answer', async () => {
  // The reason may be the error of another call, which says nothing of this one.
  for (const reason of [new Error('enough'), new NotSentError('of another call'), new RailheadError(401, undefined)]) {
    for (const way of ['one', 'batch', 'get']) {
      for (const stops of ['call', 'pause', 'token', 'failed token', 'before']) {
        const stop = new AbortController()
        let asked = 0, sent = 0
        if (stops === 'before') stop.abort(reason)
        const scripted = new Railhead({
          baseUrl, attempts: 3, backoffMs: stops === 'pause' ? 60_000 : 1,
          token: async () => {
            if (asked++ > 0) stop.abort(reason)
            if (asked > 1 && stops === 'failed token') throw stop.signal.reason
            return token
          },
          fetch: async (_, { signal }) => {
            signal.throwIfAborted()
            sent++
            if (stops === 'call') stop.abort(reason)
            if (stops === 'pause') setTimeout(() => stop.abort(reason), 20)
            signal.throwIfAborted()
            throw new TypeError('the answer was lost')
          },
        })
        const { signal } = stop
        const call = { one: () => scripted.enqueue(instruction(930), { ...key(930), signal }), get: () => scripted.get('x', { signal }), batch: () => scripted.enqueueBatch([{ ...instruction(930), idempotency_key: 'k' }], { signal }) }
        const doubted = stops !== 'before' && way !== 'get'
        const what = `${way}, ended in the ${stops} by ${reason}`
        await assert.rejects(call[way](), (e) => (doubted ? e instanceof UnknownOutcomeError && e.cause === reason : e === reason), what)
        assert.equal(sent, stops === 'before' ? 0 : 1, what)
      }
    }
  }
})

test('a line that is too long', async () => {
  const all = [950, 951, 952].map((n) => ({ ...instruction(n), idempotency_key: key(n).idempotencyKey }))
  all[1] = { ...all[1], payload: { ...all[1].payload, text: 'x'.repeat(300_000) } }
  assert.deepEqual((await client.enqueueBatch(all)).map((line) => line.status), [201, 413, 201])
})

test('what is not answered by the API refuses nothing', async () => {
  const texts = ['', 'default backend - 404', 'null', '[]', '{"status": "ok"}', '{"items": null}', '{"items": [], "page": 1, "error": "no hosts"}', '{"query": null, "items": []}', '{"title": "no", "commit": "none"}',
    '{"type": "about:blank", "title": "no", "commit": "none"}', '{"code": "RH002", "title": "no"}']
  for (const status of [200, 201, 202, 203, 400, 401, 403, 404, 408, 409, 422, 425, 429, 499, 500, 502, 503, 504]) {
    for (const text of texts) {
      let calls = 0
      const scripted = new Railhead({ baseUrl, token, attempts: 2, backoffMs: 1, fetch: async () => (calls++, new Response(text, { status })) })
      const ways = {
        one: () => scripted.enqueue(instruction(960), key(960)), batch: () => scripted.enqueueBatch([{ ...instruction(960), idempotency_key: 'k' }]),
        cancel: () => scripted.cancel('x', 'withdrawn'), get: () => scripted.get('x'), list: () => scripted.list({ participantId: 'p1' }), attempts: () => scripted.attempts('x'),
      }
      for (const [way, call] of Object.entries(ways)) await assert.rejects(call(), UnknownOutcomeError, `${way}, ${status} ${text}`)
      assert.equal(calls, 12, `${status} ${text}`)
    }
  }
})

test('keys that a header changes', async () => {
  for (const [n, text] of [`"${run}"`, `"${run}`, `""${run}""`, `${run}"`].entries()) {
    const made = await client.enqueue(instruction(970 + n), { idempotencyKey: text })
    assert.equal(made.idempotency_key, text)
    const found = await client.list({ participantId: 'p1', idempotencyKey: text })
    assert.deepEqual(found.items.map((each) => each.outbox_id), [made.outbox_id])
  }
  for (const text of [` ${run}`, `${run}\t`]) {
    await assert.rejects(client.enqueue(instruction(980), { idempotencyKey: text }), (e) => e instanceof RailheadError && e.problem.field === 'idempotency_key', text)
  }
  for (const text of ['a\nb', 'ä', '\u20ac']) assert.throws(() => client.enqueue(instruction(980), { idempotencyKey: text }), TypeError)
})

test('a token that no header can contain is not sent', async () => {
  let sent = 0
  const scripted = new Railhead({ baseUrl, token: 'rht_se\ncret', attempts: 2, backoffMs: 1, fetch: async () => (sent++, new Response('')) })
  for (const call of [scripted.enqueue(instruction(990), key(990)), scripted.enqueueBatch([{ ...instruction(990), idempotency_key: 'k' }]), scripted.get('x')]) {
    await assert.rejects(call, NotSentError)
  }
  assert.equal(sent, 0)
})

test('an answer about another payment is none', async () => {
  const mine = { outbox_id: 'x', state: 'PENDING', ...instruction(995), idempotency_key: key(995).idempotencyKey }
  for (const other of [{}, { instruction_id: 'other' }, { participant_id: 'p2' }, { idempotency_key: 'other' }]) {
    const scripted = new Railhead({
      baseUrl, token, attempts: 2, backoffMs: 1,
      fetch: async (url) => new Response(JSON.stringify(String(url).endsWith('/batch') ? { line: 1, status: 201, instruction: { ...mine, ...other } } : { ...mine, ...other }), { status: 201 }),
    })
    for (const call of [scripted.enqueue(instruction(995), key(995)), scripted.enqueueBatch([{ ...instruction(995), idempotency_key: key(995).idempotencyKey }])]) {
      if (Object.keys(other).length === 0) await call
      else await assert.rejects(call, UnknownOutcomeError, JSON.stringify(other))
    }
    await assert.rejects(scripted.get('y'), UnknownOutcomeError)
    const lists = new Railhead({ baseUrl, token, attempts: 2, backoffMs: 1, fetch: async () => new Response(JSON.stringify({ items: [{ ...mine, ...other }] })) })
    const listed = lists.list({ participantId: 'p1', instructionId: mine.instruction_id, idempotencyKey: mine.idempotency_key })
    if (Object.keys(other).length === 0) await listed
    else await assert.rejects(listed, UnknownOutcomeError)
  }
})

test('what is no trace prevents no payment', async () => {
  for (const traceparent of ['a\nb', '\u20ac', 'x'.repeat(40_000)]) {
    const made = await client.enqueue(instruction(996), { ...key(996), traceparent })
    assert.equal(made.instruction_id, instruction(996).instruction_id)
  }
})

test('a page says what it answers', async () => {
  const made = await client.enqueue(instruction(1000), key(1000))
  const none = { participantId: 'p1', instructionId: `ts-${run}-none`, idempotencyKey: `ts "&+${run}`, state: 'PENDING', limit: 7 }
  assert.deepEqual((await client.list(none)).items, [])
  assert.deepEqual((await client.list({ participantId: 'p1', state: 'CONFLICT', after: 'MQ' })).items, [])
  assert.deepEqual((await client.attempts(made.outbox_id.toUpperCase())).items, [])
  assert.deepEqual((await client.attempts(made.outbox_id, { after: 3 })).items, [])

  const item = { outbox_id: 'x', state: 'FAILED', ...instruction(1001), idempotency_key: key(1001).idempotencyKey }
  const asked = { participantId: 'p1', instructionId: item.instruction_id, idempotencyKey: item.idempotency_key, state: 'FAILED', after: 'MQ' }
  const query = { participant_id: 'p1', instruction_id: item.instruction_id, idempotency_key: item.idempotency_key, state: 'FAILED', after: 'MQ' }
  const less = (name) => ({ ...query, [name]: undefined })
  const others = [
    {}, 'p1', [], ...Object.keys(query).map(less), { ...query, participant_id: 'p2' }, { ...query, instruction_id: 'other' },
    { ...query, idempotency_key: 'other' }, { ...query, state: 'PENDING' }, { ...query, after: 'Mg' },
  ]
  const row = { attempt_no: 4, state: 'FAILED', created_at: '2026-11-30T09:00:00Z' }
  const cases = [ // what answers, the way, and whether it is taken
    [{ query, items: [] }, 'list', true], [{ query, items: [item] }, 'list', true], [{ items: [item] }, 'list', true],
    [{ items: [] }, 'list', false], [{ query: null, items: [] }, 'list', false], [{ items: [], page: 1, error: 'no hosts' }, 'list', false],
    [{ query, items: [{ ...item, state: 'PENDING' }] }, 'list', false], [{ query, items: [{ ...item, state: undefined }] }, 'list', false],
    ...others.flatMap((other) => [[{ query: other, items: [] }, 'list', false], [{ query: other, items: [item] }, 'list', false]]),
    [{ query: { participant_id: 'p1' }, items: [] }, 'all', true], [{ query, items: [] }, 'all', false],
    [{ query: { outbox_id: 'x', after: 3 }, items: [] }, 'attempts', true], [{ query: { outbox_id: 'x', after: 3 }, items: [row] }, 'attempts', true],
    ...[undefined, null, {}, { outbox_id: 'y', after: 3 }, { outbox_id: 'x' }, { outbox_id: 'x', after: '3' }, { outbox_id: 'x', after: 4 }].flatMap((other) => (
      [[{ query: other, items: [] }, 'attempts', false], [{ query: other, items: [row] }, 'attempts', false]])),
  ]
  for (const [answer, way, taken] of cases) {
    const scripted = new Railhead({ baseUrl, token, attempts: 2, backoffMs: 1, fetch: async () => new Response(JSON.stringify(answer)) })
    const call = { list: () => scripted.list(asked), all: () => scripted.list({ participantId: 'p1' }), attempts: () => scripted.attempts('X', { after: 3 }) }[way]()
    const what = `${way}, ${JSON.stringify(answer)}`
    if (taken) assert.deepEqual((await call).items, JSON.parse(JSON.stringify(answer.items)), what)
    else await assert.rejects(call, (e) => e instanceof UnknownOutcomeError && e.cause.message.includes('does not say what it answers'), what)
  }
})

test('an answer that is older than its call is none', async (t) => {
  let now = 0
  t.mock.method(performance, 'now', () => now)
  const mine = { outbox_id: 'x', state: 'CANCELLED', ...instruction(1010), idempotency_key: key(1010).idempotencyKey }
  const cases = [
    [undefined, 0, true], ['0', 0, true], ['none', 0, true], ['-5', 0, true], ['1', 200, true], ['20', 20_000, true],
    ['1', 0, false], ['21', 20_000, false], ['3600', 20_000, false], ['3600, 0', 0, false], ['99999999999999999999', 0, false],
  ]
  for (const [age, takes, taken] of cases) {
    const scripted = new Railhead({
      baseUrl, token, attempts: 1,
      fetch: async (url, init) => {
        now += takes
        const headers = age === undefined ? {} : { Age: age }
        const { pathname } = new URL(url)
        if (pathname.endsWith('/batch')) return new Response(JSON.stringify({ line: 1, status: 201, instruction: mine }), { headers })
        if (pathname.endsWith('/attempts')) return new Response(JSON.stringify({ query: { outbox_id: 'x' }, items: [] }), { headers })
        if (pathname.endsWith('/instructions') && init.method === 'GET') return new Response(JSON.stringify({ query: { participant_id: 'p1' }, items: [] }), { headers })
        return new Response(JSON.stringify(mine), { headers })
      },
    })
    const ways = {
      one: () => scripted.enqueue(instruction(1010), key(1010)), batch: () => scripted.enqueueBatch([{ ...instruction(1010), idempotency_key: key(1010).idempotencyKey }]),
      cancel: () => scripted.cancel('x', 'withdrawn'), get: () => scripted.get('x'), list: () => scripted.list({ participantId: 'p1' }), attempts: () => scripted.attempts('x'),
    }
    for (const [way, call] of Object.entries(ways)) {
      const what = `${way}, age ${age} after ${takes} ms`
      if (taken) await assert.doesNotReject(call(), what)
      else await assert.rejects(call(), UnknownOutcomeError, what)
    }
  }
  // What a cache says that an older call was refused with is no refusal of this one.
  const refused = new Response(JSON.stringify({ type, title: 'no', status: 422 }), { status: 422, headers: { Age: '60' } })
  await assert.rejects(new Railhead({ baseUrl, token, attempts: 1, fetch: async () => refused }).enqueue(instruction(1010), key(1010)), UnknownOutcomeError)
})

test('an answer to another call is none', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const marks = new Set()
  const body = (init) => JSON.stringify({ ...instruction(1), ...JSON.parse(init.body ?? '{}'), outbox_id: 'x', state: 'PENDING', idempotency_key: key(1).idempotencyKey })
  const no = JSON.stringify({ type, title: 'no', status: 422 })
  for (const [said, taken] of [[(own) => own, true], [() => null, true], [() => 'other', false], [() => '', false], [(own) => `${own}, other`, false]]) {
    for (const status of [201, 422]) {
      const answering = new Railhead({ baseUrl, token, attempts: 1, fetch: async (_, init) => {
        const own = init.headers.get('Railhead-Call')
        assert.match(own, /^[0-9a-f]{32}$/)
        assert.ok(!marks.has(own))
        marks.add(own)
        return new Response(status === 201 ? body(init) : no, { status, headers: said(own) === null ? {} : { 'Railhead-Call': said(own) } })
      } })
      const call = answering.enqueue(instruction(1), key(1))
      if (!taken) await assert.rejects(call, (e) => e instanceof UnknownOutcomeError && /another call/.test(String(e.cause)))
      else if (status === 201) assert.equal((await call).outbox_id, 'x')
      else await assert.rejects(call, (e) => e instanceof RailheadError && e.status === 422)
    }
  }
})

test('lines of a gateway are no word on their instructions', async () => {
  const mine = { outbox_id: 'x', state: 'PENDING', ...instruction(1020), idempotency_key: key(1020).idempotencyKey }
  const problem = { type, title: 'no' }, foreign = { type: 'about:blank', title: 'no', code: 'RH002', commit: 'none' }
  const ended = { end: true, status: 200, lines: 1 }
  const cases = [ // the lines, and the status of the result; none: it is not known
    [[{ line: 1, status: 201, instruction: mine }, ended], 201], [[{ line: 1, status: 200, instruction: mine }, ended], 200],
    [[{ line: 1, status: 409, problem }, ended], 409],
    [[{ line: 1, status: 201 }, ended]], [[{ line: 1 }, ended]], [[{ line: 1, instruction: mine }, ended]], [[{ line: 1, status: 409, instruction: mine }, ended]],
    [[{ line: 1, status: 201, instruction: { ...mine, state: undefined } }, ended]],
    [[{ line: 1, status: 422 }, ended]], [[{ line: 1, status: 409, problem: { title: 'x' } }, ended]], [[{ line: 1, status: 409, problem: { type } }, ended]],
    [[{ line: 1, status: 409, problem: foreign }, ended]], [[{ line: 1, status: 503, problem: foreign }, ended]], [[{ line: 1, status: 201, problem }, ended]],
    [[{ line: 1, problem }, ended]], [['line', 5, null, ['line'], ended]],
    [[{ end: true }]], [[{ end: true, status: 503 }]], [[{ end: true, status: 503, problem: foreign }]], [[{ end: true, status: 413, problem: { title: 'x' } }]],
  ]
  for (const [lines, want] of cases) {
    let calls = 0
    const scripted = new Railhead({
      baseUrl, token, attempts: 3, backoffMs: 1, fetch: async () => (calls++, new Response(lines.map((line) => JSON.stringify(line) + '\n').join(''))),
    })
    const what = JSON.stringify(lines)
    const call = scripted.enqueueBatch([{ ...instruction(1020), idempotency_key: key(1020).idempotencyKey }])
    if (want) assert.deepEqual((await call).map((line) => line.status), [want], what)
    else await assert.rejects(call, UnknownOutcomeError, what)
    assert.equal(calls, want ? 1 : 3, what)
  }
})

test('a cancel is one only if the answer says so', async () => {
  const mine = { outbox_id: 'x', ...instruction(1030), idempotency_key: key(1030).idempotencyKey }
  for (const state of ['CANCELLED', 'PENDING', 'UNKNOWN', 'DISPATCHED', '', undefined]) {
    const scripted = new Railhead({ baseUrl, token, attempts: 2, backoffMs: 1, fetch: async () => new Response(JSON.stringify({ ...mine, state })) })
    if (state === 'CANCELLED') assert.equal((await scripted.cancel('x', 'withdrawn')).state, state)
    else await assert.rejects(scripted.cancel('x', 'withdrawn'), UnknownOutcomeError, `state ${state}`)
  }
})
