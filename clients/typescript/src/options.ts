/** The longest time that a timer of Node takes, in ms, about 24.8 days. It ends what is longer after 1 ms. */
const longestTimerMs = 2 ** 31 - 1
const longestWaitSeconds = 30

export interface Options {
  /** The URL of the API, such as https://payments.example, without a query, a fragment and credentials. */
  baseUrl: string
  /** The token, or a function that returns the one in force. Each attempt calls it, and waits for it as long as `timeoutMs` and the signal allow. */
  token: string | (() => string | Promise<string>)
  /** How often a call is made at most, and how often in a row a batch is sent without a line that is answered for good: a whole number from 1; 6 unless set. */
  attempts?: number
  /**
   * The wait before the first repetition, in ms, which doubles up to 10 s; 0 or more, and 250 unless set. Where the API
   * asks for a longer one, such as by a quota, it is kept, up to two minutes.
   */
  backoffMs?: number
  /**
   * The longest that one attempt may take, in ms, in addition to what it is to wait for; more than 0, and 15,000 unless
   * set. The function that gives the token may take as long before it. What is more than 2,147,483,647, as Infinity, is that.
   */
  timeoutMs?: number
  /** In the place of the global fetch. */
  fetch?: typeof fetch
}

/** The options of a client, all of them set. It throws a TypeError that names every option which is wrong. */
export function optionsOf(given: Options): Required<Options> {
  const options = {
    baseUrl: String(given.baseUrl ?? '').replace(/\/+$/, ''),
    token: given.token,
    attempts: given.attempts ?? 6,
    backoffMs: given.backoffMs ?? 250,
    timeoutMs: given.timeoutMs ?? 15_000,
    fetch: given.fetch ?? globalThis.fetch.bind(globalThis),
  }
  const { token, attempts, backoffMs, timeoutMs } = options
  const wrong = [
    !isBase(options.baseUrl) && 'baseUrl is a URL of http or https, such as https://payments.example',
    !(typeof token === 'function' || (typeof token === 'string' && token !== '')) && 'token is a text, or a function that returns one',
    !(Number.isSafeInteger(attempts) && attempts >= 1) && 'attempts is a whole number from 1',
    !(Number.isFinite(backoffMs) && backoffMs >= 0) && 'backoffMs is a number of ms, 0 or more',
    !(typeof timeoutMs === 'number' && timeoutMs > 0) && 'timeoutMs is a number of ms, more than 0',
    typeof options.fetch !== 'function' && 'fetch is a function',
  ].filter((each) => each !== false)
  if (wrong.length > 0) throw new TypeError(`options of the client: ${wrong.join('; ')}`)
  return options
}

function isBase(text: string): boolean {
  try {
    const { protocol, username, password, search, hash } = new URL(text)
    return /^https?:$/.test(protocol) && username + password + search + hash === ''
  } catch {
    return false
  }
}

/** The whole seconds to wait for an outcome, at most 30, as the API has it; 0: not at all. */
export function waitOf(wait: number | undefined): number {
  if (wait === undefined || wait === null) return 0
  if (!(typeof wait === 'number' && wait >= 0)) throw new TypeError('wait is a number of seconds, 0 or more, of which the API waits 30 at most')
  return Math.min(Math.ceil(wait), longestWaitSeconds)
}

/** A time as timers take it: whole ms, and no more than they can. */
export function timerMs(ms: number): number {
  return Math.min(Math.ceil(ms), longestTimerMs)
}

/**
 * What a function gives, if it does so before the time is over and the signal aborts. It can't end the function, but
 * does not wait for it any longer: it rejects.
 */
export async function within<T>(ms: number, signal: AbortSignal | undefined, give: () => T | Promise<T>): Promise<T> {
  signal?.throwIfAborted()
  let stop = () => {}
  const ended = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(new Error(`the function has not given a token within ${ms} ms`)), timerMs(ms))
    const aborted = () => reject(signal?.reason)
    signal?.addEventListener('abort', aborted, { once: true })
    stop = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
    }
  })
  try {
    return await Promise.race([ended, give()])
  } finally {
    stop()
  }
}
