import assert from 'node:assert/strict'
import { test } from 'node:test'
import { client } from '../build/sdk/client.gen'
import { cancelInstruction, enqueueInstruction, getInstruction, listAttempts, listInstructions } from '../build/sdk'
import type { Instruction } from '../build/sdk'

client.setConfig({ baseUrl: process.env.RAILHEAD_API ?? '', auth: () => process.env.RAILHEAD_TOKEN })

const instruction: Instruction = {
  instruction_id: 'generated-1', participant_id: 'p1', rail_type: 'bank',
  payload: { amount: '10.50', currency: 'EUR', debtor: { account: 'p1' }, creditor: { account: 'c1' } },
}

test('an instruction is enqueued once, read, listed and cancelled', async () => {
  const headers = { 'Idempotency-Key': 'generated-key-1' }
  const first = await enqueueInstruction({ body: instruction, headers })
  assert.equal(first.response?.status, 201, JSON.stringify(first.error))
  const again = await enqueueInstruction({ body: instruction, headers })
  assert.equal(again.response?.status, 200)
  assert.equal(again.response?.headers.get('idempotent-replayed'), 'true')
  assert.equal(again.data?.outbox_id, first.data?.outbox_id)

  const path = { outbox_id: first.data?.outbox_id ?? '' }
  const read = await getInstruction({ path })
  assert.equal(read.data?.state, 'PENDING', JSON.stringify(read.error))
  const page = await listInstructions({ query: { participant_id: 'p1', idempotency_key: 'generated-key-1' } })
  assert.deepEqual(page.data?.items.map((one) => one.outbox_id), [path.outbox_id])

  const cancelled = await cancelInstruction({ path, body: { reason: 'the test ends it' } })
  assert.equal(cancelled.data?.state, 'CANCELLED', JSON.stringify(cancelled.error))
  const attempts = await listAttempts({ path })
  assert.deepEqual(attempts.data?.items.map((row) => row.state), ['CANCELLED'])
})

test('a refusal names the field and the rule', async () => {
  const conflict = await enqueueInstruction({
    body: { ...instruction, payload: { ...instruction.payload, amount: '11.50' } }, headers: { 'Idempotency-Key': 'generated-key-1' },
  })
  assert.equal(conflict.response?.status, 409)
  assert.equal(conflict.error?.code, 'RH001')
  const invalid = await enqueueInstruction({
    body: { ...instruction, payload: { ...instruction.payload, amount: '1,50' } }, headers: { 'Idempotency-Key': 'generated-key-2' },
  })
  assert.equal(invalid.response?.status, 422)
  assert.ok(invalid.error?.field, JSON.stringify(invalid.error))
})

test('another participant is forbidden', async () => {
  const foreign = await enqueueInstruction({ body: { ...instruction, participant_id: 'p2' }, headers: { 'Idempotency-Key': 'generated-key-3' } })
  assert.equal(foreign.response?.status, 403)
})
