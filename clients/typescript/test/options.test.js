// What is asked for is examined before anything counts as sent. Nothing here needs an API.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NotSentError, Railhead, UnknownOutcomeError } from '../dist/index.js'

const given = { baseUrl: 'https://payments.example/', token: 'rht_x', attempts: 2, backoffMs: 1 }
const instruction = { instruction_id: 'o-1', participant_id: 'p1', rail_type: 'bank', payload: { amount: '10.50', currency: 'EUR' } }
const idempotencyKey = 'o-1-key'
const stored = { ...instruction, outbox_id: 'x', state: 'CANCELLED', idempotency_key: idempotencyKey }

// The calls of a client whose fetch answers each of them, unless it is given another one.
const calls = (options, call, answer) => {
  const sent = []
  const client = new Railhead({ ...given, ...options, fetch: async (url, init) => {
    sent.push({ url, init })
    if (answer) return answer(init)
    const { pathname } = new URL(url)
    if (pathname.endsWith('/batch')) return new Response(JSON.stringify({ line: 1, status: 201, instruction: stored }))
    if (pathname.endsWith('/instructions') && init.method === 'GET') return new Response(JSON.stringify({ query: { participant_id: 'p1' }, items: [] }))
    return new Response(JSON.stringify(stored))
  } })
  return { sent, ways: {
    one: () => client.enqueue(instruction, { ...call, idempotencyKey }), get: () => client.get('x', call),
    batch: () => client.enqueueBatch([{ ...instruction, idempotency_key: idempotencyKey }], call),
    cancel: () => client.cancel('x', 'withdrawn', call), list: () => client.list({ ...call, participantId: 'p1' }),
  } }
}

test('options that no call can be made with are refused, all at once', () => {
  const wrong = {
    baseUrl: [undefined, null, '', 'payments.example', '/api', 'ftp://payments.example', 'https://a:b@payments.example', 'https://payments.example/?a=b', 'https://payments.example/#a'],
    token: [undefined, null, '', 5, {}], attempts: [0, -1, 1.5, NaN, Infinity, '3'], backoffMs: [-1, NaN, Infinity, '5'],
    timeoutMs: [0, -1, NaN, '15000'], fetch: ['fetch'],
  }
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      const what = `${name} ${String(value)}`
      // What is not set has a value of its own, except for the two that have to be.
      if (value === undefined && !['baseUrl', 'token'].includes(name)) continue
      assert.throws(() => new Railhead({ ...given, [name]: value }), (e) => e instanceof TypeError && e.message.includes(`${name} is `), what)
    }
  }
  assert.throws(() => new Railhead({}), /baseUrl is .*token is /)
  assert.throws(() => new Railhead({ ...given, attempts: 0, timeoutMs: 0 }), /attempts is .*timeoutMs is /)
})

test('any time that an attempt may take is one that timers can', async () => {
  for (const timeoutMs of [0.5, 1500.5, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 1e300, Infinity]) {
    const { sent, ways } = calls({ timeoutMs }, {}, (init) => new Promise((resolve, reject) => {
      init.signal.addEventListener('abort', () => reject(init.signal.reason))
      setTimeout(() => resolve(new Response(JSON.stringify(stored))), timeoutMs >= 1000 ? 30 : 300)
    }))
    if (timeoutMs >= 1000) assert.equal((await ways.one()).outbox_id, 'x', `${timeoutMs}`)
    else await assert.rejects(ways.one(), UnknownOutcomeError, `${timeoutMs}`)
    assert.equal(sent.length, timeoutMs >= 1000 ? 1 : 2, `${timeoutMs}`)
  }
})

test('a wait is whole seconds, at most 30', async () => {
  const asked = [[undefined, null], [0, null], [0.2, 'wait=1'], [1.3333, 'wait=2'], [2.0000001, 'wait=3'], [30, 'wait=30'], [31, 'wait=30'], [1e7, 'wait=30'], [Infinity, 'wait=30']]
  for (const [wait, prefer] of asked) {
    const { sent, ways } = calls({}, { wait })
    for (const way of ['one', 'get']) await ways[way]()
    assert.deepEqual(sent.map(({ init }) => init.headers.get('Prefer')), [prefer, prefer], `${wait}`)
  }
  for (const wait of [-1, NaN, '20']) {
    const { sent, ways } = calls({}, { wait })
    for (const way of ['one', 'get']) assert.throws(ways[way], (e) => e instanceof TypeError && e.message.includes('wait is '), `${way}, ${wait}`)
    assert.equal(sent.length, 0)
  }
})

test('a call that can not be made was not sent', async (t) => {
  const signal = new AbortController() // it has one, and is none
  const any = AbortSignal.any
  for (const [what, given, call] of [['a signal that is none', {}, { signal }], ['no AbortSignal.any', {}, { signal: signal.signal }], ['a token that is none', { token: () => undefined }, {}]]) {
    AbortSignal.any = what === 'no AbortSignal.any' ? undefined : any // as in Node before 20.3
    t.after(() => { AbortSignal.any = any })
    const { sent, ways } = calls({ ...given, attempts: 1 }, call)
    for (const [way, make] of Object.entries(ways)) {
      await assert.rejects(make(), (e) => e instanceof NotSentError && e.cause instanceof TypeError, `${what}, ${way}`)
    }
    assert.equal(sent.length, 0, what)
  }
})

test('a token that does not come ends the attempt, and sends nothing', async () => {
  const never = () => new Promise(() => {})
  const slow = { timeoutMs: 20, token: never }
  for (const way of ['one', 'get', 'batch', 'cancel', 'list']) {
    const late = calls(slow, {})
    await assert.rejects(late.ways[way](), (e) => e instanceof NotSentError && /20 ms/.test(e.cause.message), way)
    assert.equal(late.sent.length, 0, way)

    const stop = new AbortController(), enough = new Error('enough')
    const ended = calls({ token: never, timeoutMs: Infinity }, { signal: stop.signal })
    const call = ended.ways[way]()
    setTimeout(() => stop.abort(enough), 20)
    await assert.rejects(call, (e) => e === enough, way)
    assert.equal(ended.sent.length, 0, way)
  }
  // It does not end the doubt of an attempt before it, and a later attempt may have a token.
  let asked = 0
  const doubted = calls({ timeoutMs: 200, token: () => (asked++ === 0 ? 'rht_x' : never()) }, {}, () => { throw new TypeError('the answer was lost') })
  await assert.rejects(doubted.ways.one(), (e) => e instanceof UnknownOutcomeError && e.idempotencyKey === idempotencyKey && e.cause instanceof NotSentError)
  asked = 0
  const again = calls({ timeoutMs: 200, token: () => (asked++ === 0 ? never() : 'rht_x') }, {})
  assert.equal((await again.ways.one()).outbox_id, 'x')
  // One that is refused after the time is over ends nothing else.
  const failed = calls({ timeoutMs: 20, token: () => new Promise((_, reject) => setTimeout(() => reject(new Error('the vault is sealed')), 60)) }, {})
  await assert.rejects(failed.ways.one(), NotSentError)
  await new Promise((resolve) => setTimeout(resolve, 80))
})

test('a wait before a repetition is one that timers can', async (t) => {
  const waits = [], real = globalThis.setTimeout
  t.mock.method(globalThis, 'setTimeout', (call, ms) => (waits.push(ms), real(call, 0)))
  const busy = JSON.stringify({ type: 'https://github.com/railhead-pay/railhead/blob/main/docs/problems/over-quota.md', title: 'over', status: 429 })
  for (const backoffMs of [0, 250, 2 ** 31, 1e300]) {
    for (const after of [undefined, '60', '1e300']) {
      const { ways } = calls({ backoffMs }, {}, () => new Response(busy, { status: 429, headers: after ? { 'Retry-After': after } : {} }))
      await assert.rejects(ways.one())
      const [wait] = waits.splice(0), asked = { 60: 60_000, '1e300': 120_000 }[after] ?? 0
      assert.ok(wait >= asked && wait <= asked + 10_000, `${backoffMs}, ${after}: ${wait}`)
    }
  }
})
