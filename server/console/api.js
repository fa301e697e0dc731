// The server's public interface, with the key that the user has typed: all that the console can do. The key goes into one header of
// requests to this server, and nowhere else: no cookie, no address, no log.

const PLACE = new URL('../', import.meta.url);

export class ApiError extends Error {
  name = 'ApiError';

  /** `status` 0: there was no reply. */
  constructor(message, {status = 0, code = 'unreachable', field = null, cause} = {}) {
    super(message, cause && {cause});
    Object.assign(this, {status, code, field});
  }
}

/** What can stand in a header. */
export const isKey = text => /^[\x21-\x7e]*$/.test(text);

async function errorOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch { /* of a proxy on the way, perhaps */ }
  return new ApiError(String(body?.error ?? `The server answered ${response.status}.`), {
    status: response.status, code: body?.code ?? 'http_error', field: body?.field ?? null,
  });
}

export class Api {
  /** `signedOut` is called once the server takes the key no more. */
  constructor(key, signedOut) {
    this.key = key;
    this.signedOut = signedOut;
  }

  get url() {
    return PLACE.href.replace(/\/$/, '');
  }

  async send(method, path, {body, signal, accept} = {}) {
    const isFile = body instanceof Blob;
    let response;
    try {
      // Without credentials the browser neither adds any of its own nor asks for a password.
      response = await fetch(new URL(path, PLACE), {
        method, signal, credentials: 'omit', cache: 'no-store', redirect: 'error', body: isFile || body === undefined ? body : JSON.stringify(body),
        headers: {
          ...(this.key && {'X-Service-API-Key': this.key}), ...(accept && {Accept: accept}),
          ...(body !== undefined && {'Content-Type': isFile ? 'application/octet-stream' : 'application/json'}),
        },
      });
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      throw new ApiError('The server does not answer.', {cause});
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (error.status === 401) this.signedOut();
    throw error;
  }

  async json(method, path, options) {
    const response = await this.send(method, path, options);
    return response.status === 204 ? undefined : response.json();
  }

  get(path, signal) {
    return this.json('GET', path, {signal});
  }
}

/** The events of a stream, as {event, data}; comments are left out. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      if (block.startsWith(':')) continue;
      const [first, ...lines] = block.split('\n');
      yield {event: first.replace('event: ', ''), data: JSON.parse(lines.map(line => line.replace('data: ', '')).join('\n'))};
    }
  }
}

const rest = (ms, signal) => new Promise(resolve => {
  const timer = setTimeout(done, ms);
  function done() {
    clearTimeout(timer);
    signal.removeEventListener('abort', done);
    resolve();
  }
  signal.addEventListener('abort', done);
});

const visible = signal => new Promise(resolve => {
  if (!document.hidden || signal.aborted) {
    resolve();
    return;
  }
  document.addEventListener('visibilitychange', resolve, {once: true, signal});
  signal.addEventListener('abort', resolve, {once: true});
});

/** Asks now, and again `ms` after each answer, while the page is to be seen and until `signal` is aborted. */
export async function every(ms, signal, ask, failed) {
  while (!signal.aborted) {
    try {
      await ask();
    } catch (error) {
      if (signal.aborted) return;
      failed(error);
    }
    await rest(ms, signal);
    await visible(signal);
  }
}
