// A client of the Railhead HTTP API. It needs nothing but fetch.
//
// A call that enqueues is repeated by itself with the same idempotency key after each answer
// that leaves open, or rules out for now, whether the instruction is stored: no answer, 429 and
// 5xx. It never makes a second instruction.

import { NotSentError, RailheadError, UnknownOutcomeError, notRead } from './errors.js'
import { type Options, optionsOf, timerMs, waitOf, within } from './options.js'
import type { components } from './schema.js'

export { NotSentError, RailheadError, UnknownOutcomeError } from './errors.js'
export type { Options } from './options.js'

/** An instruction, as the API takes it. */
export type Instruction = components['schemas']['Instruction']
/** An instruction of a batch, with its key. */
export type BatchInstruction = components['schemas']['BatchInstruction']
/** What is known of an instruction. */
export type InstructionStatus = components['schemas']['InstructionStatus']
/** A row of the archive. */
export type Attempt = components['schemas']['Attempt']
/** A page of instructions. */
export type InstructionPage = components['schemas']['InstructionPage']
/** A page of attempts. */
export type AttemptPage = components['schemas']['AttemptPage']
/** Why a call was not done, as RFC 9457 has it. */
export type Problem = components['schemas']['Problem']
/** A line of the answer to a batch. */
export type BatchLine = components['schemas']['BatchLine']

export interface CallOptions {
  /**
   * Ends the call, which then rejects with the signal's reason. Where an attempt of an enqueue or a cancel may have
   * been done, also in part, it rejects with UnknownOutcomeError, whose cause is the reason.
   */
  signal?: AbortSignal
}

export interface EnqueueOptions extends CallOptions {
  /**
   * The key of this payment: one for each payment that is meant, kept with your own record
   * before the call, and the same for each repetition.
   */
  idempotencyKey: string
  /** Seconds to wait for the outcome, at most 30; what is more is 30, and a part of a second is a whole one. */
  wait?: number
  /** W3C trace context. */
  traceparent?: string
}

export interface ListOptions extends CallOptions {
  participantId: string
  after?: string
  limit?: number
  state?: string
  instructionId?: string
  idempotencyKey?: string
}

interface Request {
  method: 'GET' | 'POST'
  path: string
  headers?: Record<string, string>
  body?: string
  /** What the answer may take in addition, in ms. */
  patienceMs?: number
  idempotencyKey?: string
  signal?: AbortSignal | undefined
  /** Whether an answer is what the API answers. */
  whole?: (value: unknown) => boolean
}

interface Answer {
  status: number
  text: string
  retryAfter: string | null
}

const longestBackoffMs = 10_000
const longestAskedMs = 120_000

export class Railhead {
  readonly #options: Required<Options>

  /** It sends nothing. A TypeError names every option that is wrong. */
  constructor(options: Options) {
    this.#options = optionsOf(options)
  }

  /**
   * Enqueues one instruction. `replayed` of the result says that the key was known. With `wait`
   * the result may have the outcome; `state` and `certainty` say whether it does. The state
   * ELSEWHERE is answered at once: the payment is in another cell, which alone knows the outcome.
   * A TypeError that is thrown, and no rejection, is of what was asked for: nothing was sent.
   */
  enqueue(instruction: Instruction, options: EnqueueOptions): Promise<InstructionStatus> {
    if (!options.idempotencyKey) {
      throw new TypeError('an enqueue needs an idempotencyKey: a fresh one per retry is how a payment is made twice')
    }
    const headers: Record<string, string> = { 'Content-Type': 'application/json', 'Idempotency-Key': keyHeader(options.idempotencyKey) }
    const wait = waitOf(options.wait)
    if (wait > 0) headers['Prefer'] = `wait=${wait}`
    // What is no trace prevents no payment.
    if (options.traceparent && /^[ -~]{1,1024}$/.test(options.traceparent)) headers['traceparent'] = options.traceparent
    return this.#json({
      method: 'POST', path: '/v1/instructions', headers, body: JSON.stringify(instruction), patienceMs: wait * 1000,
      idempotencyKey: options.idempotencyKey, signal: options.signal,
      whole: (value) => isOf(value, instruction, options.idempotencyKey),
    })
  }

  /** Says what became of an instruction; with `wait`, once it rests or after so many seconds, or at once if it is ELSEWHERE. */
  get(outboxId: string, options: CallOptions & { wait?: number } = {}): Promise<InstructionStatus> {
    const wait = waitOf(options.wait)
    const headers: Record<string, string> = wait > 0 ? { Prefer: `wait=${wait}` } : {}
    return this.#json({
      method: 'GET', path: `/v1/instructions/${encodeURIComponent(outboxId)}`, headers, patienceMs: wait * 1000, signal: options.signal,
      whole: (value) => isWithId(value, outboxId),
    })
  }

  /** One page of the archive's rows about an instruction. An API before version 1.4.0 does not say of which: its pages are not taken. */
  attempts(outboxId: string, options: CallOptions & { after?: number; limit?: number } = {}): Promise<AttemptPage> {
    const query = queryOf({ after: options.after, limit: options.limit })
    return this.#json({
      method: 'GET', path: `/v1/instructions/${encodeURIComponent(outboxId)}/attempts${query}`, signal: options.signal,
      whole: (value) => isAttemptsOf(value, outboxId, options.after),
    })
  }

  /**
   * One page of a participant's instructions, as they were stored when it was read. While an enqueue that was not
   * answered may be under way, an empty page does not mean that there is no payment: repeat that enqueue, with the same
   * ids and content, before any payment in another way. An empty one of an API before version 1.4.0, which does
   * not say what it answers, is not taken.
   */
  list(options: ListOptions): Promise<InstructionPage> {
    const query = queryOf({
      participant_id: options.participantId, after: options.after, limit: options.limit, state: options.state,
      instruction_id: options.instructionId, idempotency_key: options.idempotencyKey,
    })
    return this.#json({ method: 'GET', path: `/v1/instructions${query}`, signal: options.signal, whole: (value) => isPageOf(value, options) })
  }

  /** All of a participant's instructions, page by page. */
  async *listAll(options: ListOptions): AsyncGenerator<InstructionStatus, void, undefined> {
    for (let after = options.after; ; ) {
      const page = await this.list(after === undefined ? options : { ...options, after })
      yield* page.items
      if (!page.next) return
      after = page.next
    }
  }

  /**
   * Ends an instruction that waits and of which no send can have been executed. Pay in another way only once this has
   * resolved, and not where the `certainty` is `OUTCOME_UNKNOWN`: the payment may have been made all the same.
   */
  cancel(outboxId: string, reason: string, options: CallOptions = {}): Promise<InstructionStatus> {
    return this.#json({
      method: 'POST', path: `/v1/instructions/${encodeURIComponent(outboxId)}/cancel`, headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ reason }), signal: options.signal,
      whole: (value) => isWithId(value, outboxId) && (value as InstructionStatus).state === 'CANCELLED',
    })
  }

  /**
   * Enqueues many, each with its key, and gives a line for each in their order. Lines that no
   * answer is known of, that were not read, or that may succeed later, are sent again. If any of
   * them is or may be stored, an error of the call is UnknownOutcomeError, whatever its cause is.
   */
  async enqueueBatch(instructions: readonly BatchInstruction[], options: CallOptions = {}): Promise<BatchLine[]> {
    const lines = new Map<number, BatchLine>()
    const texts = instructions.map((each) => JSON.stringify(each))
    let open = instructions.map((_, n) => n)
    const doubtful = new Set<number>() // some attempt may have enqueued it
    let failure: unknown
    let vain = 0 // attempts in a row that have ended no line
    let after: string | null = null
    // An error must not say that nothing was done where a line is stored, or may be.
    const stored = () => [...lines.values()].some(({ status }) => status < 300)
    const ended = (error: unknown) => unknownIf(doubtful.size > 0 || stored(), undefined, error)
    for (let attempt = 1; open.length > 0 && vain < this.#options.attempts; attempt++) {
      if (attempt > 1) await this.#pause(Math.max(vain, 1), after, options.signal)
      after = null
      const before = open.length
      vain++
      const answer = await this.#once({
        method: 'POST', path: '/v1/instructions/batch', headers: { 'Content-Type': 'application/x-ndjson' },
        body: open.map((n) => texts[n] + '\n').join(''), patienceMs: open.length * 20, signal: options.signal,
      })
      if ('failure' in answer) {
        if (answer.sent) open.forEach((n) => doubtful.add(n))
        if (options.signal?.aborted) throw ended(options.signal.reason)
        failure = answer.failure
        continue
      }
      if (answer.status < 200 || answer.status >= 300) {
        const refused = new RailheadError(answer.status, problemOf(answer.text))
        if (refused.mayBeDone) open.forEach((n) => doubtful.add(n))
        if (!refused.retryable) throw ended(refused)
        failure = refused
        after = answer.retryAfter
        continue
      }
      const said = new Map<number, BatchLine>()
      let read = open.length // without an end line all of them may have been
      for (const text of answer.text.split('\n')) {
        const line = parsed<BatchLine>(text)
        if (line?.end && (refuses(line) || (line.status === 200 && !line.problem))) {
          read = line.lines ?? 0
          if (read < open.length) failure = notRead(line.problem)
        }
        after = String(Math.max(Number(after ?? 0), line?.problem?.retry_after ?? 0))
        const at = line?.line === undefined ? undefined : open[line.line - 1]
        if (!line || at === undefined) continue
        // Anything else is not the API's word on the line.
        if (isStored(line, instructions[at]!) || refuses(line)) said.set(at, { ...line, line: at + 1 })
      }
      for (const [at, n] of open.entries()) {
        const line = said.get(n)
        // What is behind the lines that the end line counts was not read, so this attempt has not stored it.
        if (line ? line.status >= 500 && line.problem?.commit !== 'none' : at < read) doubtful.add(n)
        // A refusal is the end of a line that no attempt before it may have enqueued.
        if (line && (line.status < 300 || !doubtful.has(n))) lines.set(n, line)
      }
      open = open.filter((n) => !(lines.get(n) && lines.get(n)!.status < 500 && lines.get(n)!.status !== 429))
      if (open.length < before) vain = 0 // it goes on, such as under a quota
    }
    if (open.some((n) => doubtful.has(n) || !lines.has(n))) throw ended(failure ?? new UnknownOutcomeError(undefined, failure))
    return instructions.map((_, n) => lines.get(n)!)
  }

  /** Makes a call until it is answered for good. */
  async #json<T>(request: Request): Promise<T> {
    let failure: unknown
    let after: string | null = null
    // Some attempt may have done it: what a later one is told is said of that one alone.
    let doubtful = false
    const writes = request.method === 'POST'
    const ended = (error: unknown) => unknownIf(doubtful, request.idempotencyKey, error)
    for (let attempt = 1; attempt <= this.#options.attempts; attempt++) {
      if (attempt > 1) await this.#pause(attempt - 1, after, request.signal)
      after = null
      const answer = await this.#once(request)
      if ('failure' in answer) {
        doubtful ||= writes && answer.sent
        if (request.signal?.aborted) throw ended(request.signal.reason)
        failure = answer.failure
        continue
      }
      if (answer.status >= 200 && answer.status < 300) {
        const value = parsed<T>(answer.text)
        if (value !== undefined && request.whole?.(value) !== false) return value
        failure = new Error("the answer was cut, or is not the API's to this call, as an empty page that does not say what it answers")
        doubtful ||= writes
        continue
      }
      const refused = new RailheadError(answer.status, problemOf(answer.text))
      if (!refused.retryable) throw ended(refused)
      doubtful ||= writes && refused.mayBeDone
      failure = refused
      after = answer.retryAfter
    }
    if (failure instanceof NotSentError || (failure instanceof RailheadError && !failure.mayBeDone)) throw ended(failure)
    throw new UnknownOutcomeError(request.idempotencyKey, failure)
  }

  /**
   * Makes one attempt. It does not reject, but says whether something may have been sent: of what fetch rejects
   * with, such as any reason of the caller's, the class does not say it.
   */
  async #once(request: Request): Promise<Answer | { sent: boolean; failure: unknown }> {
    const { baseUrl, token, timeoutMs, fetch } = this.#options
    const mark = newMark()
    let headers: Headers
    let signal: AbortSignal
    try {
      const { signal: ends } = request
      ends?.throwIfAborted()
      const inForce = typeof token === 'string' ? token : await within(timeoutMs, ends, token)
      ends?.throwIfAborted()
      if (typeof inForce !== 'string') throw new TypeError('the token is no text')
      headers = new Headers({ ...request.headers, Authorization: `Bearer ${inForce}`, Accept: 'application/json', [callHeader]: mark })
      const timeout = AbortSignal.timeout(timerMs(timeoutMs + (request.patienceMs ?? 0)))
      signal = ends ? AbortSignal.any([ends, timeout]) : timeout
    } catch (failed) {
      return { sent: false, failure: new NotSentError(failed) }
    }
    try {
      const began = performance.now()
      const response = await fetch(baseUrl + request.path, {
        method: request.method,
        headers,
        body: request.body ?? null,
        redirect: 'error', // a token goes to the host that was named, and nowhere else
        signal,
      })
      // A cache has kept what is older than the call, although the API forbids that. Some proxies count the time of the
      // call itself, in whole seconds.
      if (Number.parseInt(response.headers.get('Age') ?? '', 10) > Math.ceil((performance.now() - began) / 1000)) {
        await response.body?.cancel()
        throw new Error('the answer is older than the call: a cache on the way has kept it')
      }
      // An API before version 1.5.0, and a gateway, do not say which call they answer.
      if ((response.headers.get(callHeader) ?? mark) !== mark) {
        await response.body?.cancel()
        throw new Error('the answer is that to another call: something on the way has mixed them up')
      }
      return { status: response.status, text: await response.text(), retryAfter: response.headers.get('Retry-After') }
    } catch (failed) {
      return { sent: true, failure: failed }
    }
  }

  /**
   * Waits longer each time, less up to half of it by chance, and at least as long as the API asks for. It returns at
   * once where the caller ends the call.
   */
  async #pause(repetition: number, after: string | null | undefined, signal: AbortSignal | undefined): Promise<void> {
    const backoffMs = Math.min(this.#options.backoffMs, longestBackoffMs)
    const doubled = Math.min(backoffMs * 2 ** (repetition - 1), longestBackoffMs) * (1 - Math.random() / 2)
    const asked = Math.min((Number(after ?? 0) || 0) * 1000, longestAskedMs)
    const wait = asked > 0 ? Math.max(doubled, asked + (backoffMs * Math.random()) / 2) : doubled
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, wait)
      if (signal?.aborted) end()
      else signal?.addEventListener('abort', end, { once: true })
    })
  }
}

/** The header by which a call is marked, which each answer of the API repeats. */
const callHeader = 'Railhead-Call'

/** A text that no other call has: 32 hexadecimal digits. */
function newMark(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The error of a call, some attempt of which may have done it, or a part of it. */
function unknownIf(doubtful: boolean, idempotencyKey: string | undefined, error: unknown): unknown {
  return doubtful ? new UnknownOutcomeError(idempotencyKey, error) : error
}

function parsed<T>(text: string): T | undefined {
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text) as T
  } catch {
    return undefined
  }
}

/** The types of problems (RFC 9457, section 3.1.1) are pages under it. An error without one is not the API's. */
const problemsAt = 'https://github.com/railhead-pay/railhead/blob/main/docs/problems/'

function isProblem(value: Problem | null | undefined): value is Problem {
  return typeof value?.type === 'string' && value.type.startsWith(problemsAt) && typeof value.title === 'string'
}

function problemOf(text: string): Problem | undefined {
  const value = parsed<Problem>(text)
  return isProblem(value) ? value : undefined
}

/** Whether a line of a batch says that its instruction is stored. */
function isStored({ status, instruction }: BatchLine, asked: BatchInstruction): boolean {
  return status >= 200 && status < 300 && isOf(instruction, asked, asked.idempotency_key)
}

/** Whether a line of a batch has a problem of the API. */
function refuses({ status, problem }: BatchLine): boolean {
  return status >= 400 && isProblem(problem)
}

function isInstruction(value: unknown): boolean {
  const got = value as InstructionStatus | null | undefined
  return typeof got?.outbox_id === 'string' && typeof got.state === 'string'
}

/** Whether an answer is about the instruction: a cache on the way may know its key, and not its participant. */
function isOf(value: unknown, instruction: Instruction, idempotencyKey: string): boolean {
  const got = value as InstructionStatus | null
  return isInstruction(got) && got?.instruction_id === instruction.instruction_id &&
    got?.participant_id === instruction.participant_id && got?.idempotency_key === idempotencyKey
}

/**
 * Whether an answer is a page of what is listed; of a payment in another cell the API may not know the key. Anything on
 * the way may answer an empty page, and a cache that of another question: a page says what it answers. That of an older
 * API does not; only the instructions in it do.
 */
function isPageOf(value: unknown, { participantId, after, state, instructionId, idempotencyKey }: ListOptions): boolean {
  const { query, items } = (value ?? {}) as Partial<InstructionPage>
  const asked = { participant_id: participantId, after, state, instruction_id: instructionId, idempotency_key: idempotencyKey }
  if (!Array.isArray(items) || !(query ? isAnswerTo(query, asked) : items.length > 0)) return false
  return items.every((each) => isInstruction(each) && each.participant_id === participantId && (!state || each.state === state) &&
    (instructionId === undefined || each.instruction_id === instructionId) &&
    (idempotencyKey === undefined || each.idempotency_key === idempotencyKey || (each.state === 'ELSEWHERE' && each.idempotency_key === '')))
}

/** Whether an answer is a page of an instruction's attempts, whose rows do not name it. */
function isAttemptsOf(value: unknown, outboxId: string, after: number | undefined): boolean {
  const { query, items } = (value ?? {}) as Partial<AttemptPage>
  return Array.isArray(items) && isAnswerTo(query, { outbox_id: outboxId.toLowerCase(), after: after || undefined })
}

/** Whether a page says that it answers a question. A parameter that is empty is as one that is absent. */
function isAnswerTo(said: object | null | undefined, asked: Record<string, string | number | undefined>): boolean {
  const got = (said ?? {}) as Record<string, unknown>
  return Object.entries(asked).every(([name, value]) => (got[name] ?? '') === (value ?? ''))
}

/** Whether an answer is about an instruction, whose id may be written in capitals. */
function isWithId(value: unknown, outboxId: string): boolean {
  return isInstruction(value) && (value as InstructionStatus).outbox_id === outboxId.toLowerCase()
}

/**
 * The header of a key. As a string of structured fields (RFC 9651) it is sent as it is, where it would be changed on its
 * way: spaces are cut off, and the API cuts the quotes of such a string off.
 */
function keyHeader(key: string): string {
  if (/[^\t -~]/.test(key)) throw new TypeError('an idempotencyKey is 1 to 128 printable ASCII characters')
  return key.trim() !== key || key.startsWith('"') ? `"${key}"` : key
}

function queryOf(parameters: Record<string, string | number | undefined>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, String(value))
  }
  const text = query.toString()
  return text ? '?' + text : ''
}
