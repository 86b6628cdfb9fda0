// Questions to the agent: each with a time limit, each ended when the page is hidden.

const TIMEOUT_MS = 5000;
const TOKEN = 'edge-agent.token';
const VISIBLE_ASCII = /^[\x21-\x7e]+$/; // what a header may carry

/** The agent answered, but not with what was asked for. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** No answer came, or none that can be read. */
export class Silent extends Error {}

let token = stored(() => sessionStorage.getItem(TOKEN)) || '';

export function hasToken() {
  return token !== '';
}

/** Keeps the token for this tab; false when it cannot be one. */
export function setToken(text) {
  const given = text.trim();
  if (given && !VISIBLE_ASCII.test(given)) return false;
  token = given;
  stored(() => (token ? sessionStorage.setItem(TOKEN, token) : sessionStorage.removeItem(TOKEN)));
  return true;
}

/** What storage holds, or null where the browser forbids it. */
export function stored(use) {
  try {
    return use();
  } catch (error) {
    return null;
  }
}

export function askJson(path, signal) {
  return ask(path, signal, (response) => response.json());
}

export function askBlob(path, signal) {
  return ask(path, signal, (response) => response.blob());
}

/** The answer's body. Refused with the agent's text; Silent. */
async function ask(path, signal, read) {
  const limit = new AbortController();
  const end = () => limit.abort();
  const timer = setTimeout(end, TIMEOUT_MS);
  signal.addEventListener('abort', end);
  if (signal.aborted) end();
  try {
    // X-Requested-With: a 401 must not open the browser's own password window
    const headers = { 'X-Requested-With': 'fetch' };
    if (token) headers.Authorization = `Bearer ${token}`;
    const response = await fetch(path, { headers, signal: limit.signal, cache: 'no-store', credentials: 'same-origin' });
    if (!response.ok) throw new Refused(response.status, await errorText(response));
    return await read(response);
  } catch (error) {
    throw error instanceof Refused ? error : new Silent(error.message);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
}

async function errorText(response) {
  try {
    return String((await response.json()).error);
  } catch (error) {
    return response.statusText;
  }
}

/** Calls `once(signal)` again and again, never twice at a time, `interval` ms apart from start to start, until stopped. */
export class Loop {
  constructor(interval, once) {
    this.interval = interval;
    this.once = once;
    this.running = null;
  }

  start() {
    if (this.running) return;
    this.running = new AbortController();
    this.run(this.running.signal);
  }

  stop() {
    if (this.running) this.running.abort();
    this.running = null;
  }

  async run(signal) {
    while (!signal.aborted) {
      const began = performance.now();
      await this.once(signal);
      await pause(Math.max(100, this.interval - (performance.now() - began)), signal);
    }
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
    return undefined;
  });
}
