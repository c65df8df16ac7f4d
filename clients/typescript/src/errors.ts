import type { components } from './schema.js'

type Problem = components['schemas']['Problem']

/**
 * A call that was refused. `problem.field` and `problem.rule` are there to branch on. Without a problem the answer was
 * not of the API, but of something on the way to it, such as a gateway: it refuses nothing.
 */
export class RailheadError extends Error {
  constructor(readonly status: number, readonly problem: Problem | undefined) {
    super(problem ? `${problem.title}${problem.detail ? ': ' + problem.detail : ''}` : `status ${status}, and not from the API`)
    this.name = 'RailheadError'
  }

  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return !this.problem || this.status === 408 || this.status === 429 || this.status >= 500
  }

  /** Whether this very call may have been done all the same. Of one before it nothing is said. */
  get mayBeDone(): boolean {
    return !this.problem || (this.status >= 500 && this.problem.commit !== 'none')
  }
}

/**
 * No answer says whether the call was done, after all repetitions. Of an enqueue: do not pay in
 * another way; repeat it later with the same key and content. Of a batch: some of it is stored, or
 * may be.
 */
export class UnknownOutcomeError extends Error {
  constructor(readonly idempotencyKey: string | undefined, cause: unknown) {
    super('it is not known whether the call was done', { cause })
    this.name = 'UnknownOutcomeError'
  }
}

/**
 * Nothing was done: the function that gives the token has failed, was too slow, or gave what is no token, or the call
 * can't be made, as `cause` says. So nothing was sent, and no earlier attempt may have done the call, or a part of it.
 * It may be repeated.
 */
export class NotSentError extends Error {
  constructor(cause: unknown) {
    super('nothing was sent: the call has no token, or cannot be made', { cause })
    this.name = 'NotSentError'
  }
}

/** The error of lines that were not read. It is no refusal of them, whatever has ended the batch. */
export function notRead(why: Problem | undefined): RailheadError {
  return new RailheadError(503, {
    type: why?.type ?? 'about:blank', title: 'The API has not read the whole batch', status: 503, commit: 'none',
    ...(why && { detail: why.title }),
  })
}
