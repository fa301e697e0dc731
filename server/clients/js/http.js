// Requests to the server: errors as ImmureError, a server that is busy tried again, event streams read one by one.

export class ImmureError extends Error {
  name = 'ImmureError';

  /** `status` 0: there was no reply. */
  constructor(message, {status = 0, code = 'unreachable', field = null, retryAfterMs, cause} = {}) {
    super(message, cause && {cause});
    Object.assign(this, {status, code, field, retryAfterMs});
  }
}

export const wait = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(done, ms);
  function done() {
    signal?.removeEventListener('abort', done);
    clearTimeout(timer);
    if (signal?.aborted) reject(signal.reason);
    else resolve();
  }
  signal?.addEventListener('abort', done);
  if (signal?.aborted) done();
});

async function errorOf(response) {
  const seconds = Number(response.headers.get('Retry-After'));
  let body = {};
  try {
    body = await response.json();
  } catch { /* of a proxy on the way, perhaps */ }
  return new ImmureError(body.error ?? `HTTP ${response.status || 'redirect'}`, {
    status: response.status, code: body.code ?? 'http_error', field: body.field ?? null, retryAfterMs: seconds > 0 ? seconds * 1000 : undefined,
  });
}

function placeOf(url) {
  try {
    const place = url && new URL(url, globalThis.location?.href);
    if (/^https?:$/.test(place.protocol)) return place;
  } catch { /* whose message would show a key that stands in it */ }
  throw new TypeError('url: where the server is, such as http://127.0.0.1:8080');
}

export class Http {
  /** A password in `url` is the key, if none is given. */
  constructor({url, key, fetch = globalThis.fetch, headers = {}, retryBudgetMs = 30000}) {
    const place = placeOf(url);
    key ||= decodeURIComponent(place.password);
    place.username = place.password = '';
    this.url = place.href.replace(/\/+$/, '');
    this.fetch = fetch.bind(globalThis);
    this.headers = {...headers, ...(key && {Authorization: `Bearer ${key}`})};
    this.retryBudgetMs = retryBudgetMs;
  }

  /**
   * -> the response of a request that the server has taken. Only what was refused for want of room is tried again, until `patience` is aborted.
   * Code and key go nowhere else: a redirect is an error.
   */
  async send(method, path, {body, headers, signal, patience = signal} = {}) {
    const until = Date.now() + this.retryBudgetMs;
    const raw = body instanceof Uint8Array || typeof body === 'string';
    const init = {
      method, signal, redirect: 'manual', body: raw || body === undefined ? body : JSON.stringify(body),
      headers: {...this.headers, ...(body !== undefined && {'Content-Type': raw ? 'application/octet-stream' : 'application/json'}), ...headers},
    };
    for (;;) {
      let response;
      try {
        response = await this.fetch(this.url + path, init);
      } catch (cause) {
        if (signal?.aborted) throw signal.reason;
        throw new ImmureError(`${method} ${path}: no reply from ${this.url}`, {cause});
      }
      if (response.ok) return response;
      const error = await errorOf(response);
      const again = (error.status === 429 || error.status === 503) && error.retryAfterMs && Date.now() + error.retryAfterMs <= until;
      if (!again) throw error;
      await wait(error.retryAfterMs, patience);
    }
  }

  async json(method, path, options) {
    const response = await this.send(method, path, options);
    return response.status === 204 ? undefined : response.json();
  }
}

/** A job that waits for an approval, or has waited for one, may be answered without events. */
export const isEvents = response => /^text\/event-stream\b/.test(response.headers.get('Content-Type'));

/** The events of a response, as {event, data}; comments are left out. There are no more once `signal` is aborted. */
export async function* events(response, signal) {
  const reader = response.body.getReader(), decoder = new TextDecoder(), begun = [];
  const end = () => { reader.cancel().catch(() => {}); };
  signal.addEventListener('abort', end);
  try {
    for (let newline = ''; ;) {
      const {done, value} = await reader.read();
      const blocks = (newline + decoder.decode(value, {stream: !done})).split('\n\n'), rest = blocks.pop();
      for (const block of blocks) {
        const whole = begun.splice(0).join('') + block;
        if (whole.startsWith(':')) continue;
        const [first, ...lines] = whole.split('\n');
        yield {event: first.replace('event: ', ''), data: JSON.parse(lines.map(line => line.replace('data: ', '')).join('\n'))};
      }
      if (done) return;
      newline = rest.endsWith('\n') ? '\n' : ''; // perhaps the first of two
      begun.push(newline ? rest.slice(0, -1) : rest);
    }
  } finally {
    end();
  }
}
