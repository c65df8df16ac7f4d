// Against a running API: RAILHEAD_API and RAILHEAD_TOKEN, of participant p1, name it. Where
// RAILHEAD_LOSSY is set it is the API behind a proxy that loses answers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Railhead, RailheadError, UnknownOutcomeError } from '../dist/index.js'

const baseUrl = process.env.RAILHEAD_API
const token = process.env.RAILHEAD_TOKEN
assert.ok(baseUrl && token, 'RAILHEAD_API and RAILHEAD_TOKEN name the API to test against')
const client = new Railhead({ baseUrl, token })
const run = Date.now().toString(36)

const instruction = (n) => ({
  instruction_id: `ts-${run}-${n}`, participant_id: 'p1', rail_type: 'bank',
  payload: { amount: '10.50', currency: 'EUR', debtor: { account: 'a' }, creditor: { account: 'b' } },
})
const key = (n) => ({ idempotencyKey: `ts-${run}-${n}-key` })

test('enqueue, and the same again', async () => {
  const first = await client.enqueue(instruction(1), key(1))
  const again = await client.enqueue(instruction(1), key(1))
  assert.equal(first.replayed, false)
  assert.equal(again.replayed, true)
  assert.equal(again.outbox_id, first.outbox_id)
  const found = await client.get(first.outbox_id)
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

test('an earlier attempt may have stored', async () => {
  const problem = (status, commit) => ({ status, text: JSON.stringify({ title: 'refused', status, commit }) })
  const none = problem(503, 'none'), unknown = problem(503, 'unknown'), expired = problem(401), cut = { status: 201, text: '{"outbox' }
  const line = (status, commit) => ({ status: 200, text: JSON.stringify({ line: 1, status, problem: { title: 'refused', status, commit } }) + '\n' })
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
