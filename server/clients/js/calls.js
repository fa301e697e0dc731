// Calls of a program that its caller answers: `call` events in, POST /executions/ID/answers out.

const CHARACTERS_AT_ONCE = 1 << 20;

/** A text with half of a surrogate pair would be no JSON for the server. */
const messageOf = error => String(error?.message ?? error).replace(/[\ud800-\udfff]/gu, '\ufffd');

const sizeOf = answer => (answer.data ?? answer.error).length;

/** Answers go out together where they come while others are on their way. */
export class Calls {
  #http;
  #path;
  #waiting = [];
  #sending = false;
  #lost = new AbortController();

  /** `answer({name, args})` -> a promise of the JSON text that answers the call. */
  constructor(http, executionId, answer) {
    this.#http = http;
    this.#path = `/executions/${encodeURIComponent(executionId)}/answers`;
    this.answer = answer;
  }

  /** Aborted once an answer could not be given, with the error: the program would wait for it. */
  get lost() { return this.#lost.signal; }

  async take(call) {
    try {
      this.#waiting.push({id: call.id, data: await this.answer(call)});
    } catch (error) {
      this.#waiting.push({id: call.id, error: messageOf(error)});
    }
    if (this.#sending) return;
    this.#sending = true;
    try {
      while (this.#waiting.length > 0) await this.#send(this.#waiting.splice(0, this.#atOnce()));
    } catch (error) {
      this.#lost.abort(error);
    }
    this.#sending = false;
  }

  #atOnce() {
    let n = 1;
    for (let size = sizeOf(this.#waiting[0]); n < Math.min(this.#waiting.length, 256); n++) {
      size += sizeOf(this.#waiting[n]);
      if (size > CHARACTERS_AT_ONCE) break;
    }
    return n;
  }

  async #send(answers) {
    try {
      await this.#http.send('POST', this.#path, {body: answers});
    } catch (error) {
      if (error.status === 404 || error.status === 409) return; // it comes too late, which is nobody's loss: the run says what became of it
      if (answers.length === 1 || (error.status !== 400 && error.status !== 413)) throw error;
      for (const answer of answers) await this.#send([answer]); // the others are not to blame
    }
  }
}

export const freshId = () => globalThis.crypto?.randomUUID?.() ?? `js-${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
