// The technician's page: asks the agent while it is looked at, and shows what it answered.

import { Loop, Refused, Silent, askJson, hasToken, setToken, stored } from './agent.js';
import { h, patch } from './dom.js';
import { faultRow, faults, setCodes, verdict, withCode } from './faults.js';
import { Pictures } from './pictures.js';
import * as sections from './sections.js';
import { clockTime, duration, languageCode, say, setLanguage } from './words.js';

const LANGUAGE = 'edge-agent.language';
const byId = (id) => document.getElementById(id);

const pictures = new Pictures();
const enlarged = new Set();
const lists = { results: { rows: null, error: '' }, events: { rows: null, error: '' } };
let status = null;
let codesOf = ''; // the version whose codes we have
let openedAt = Date.now();
let answeredAt = 0; // when the last status came
let trouble = null; // {word, values} of the banner, null while the agent answers
let signIn = ''; // the word of why a token is asked for

// -- asking -------------------------------------------------------------------------------------------------------------

async function askStatus(signal) {
  try {
    const document_ = await askJson('api/status', signal);
    if (codesOf !== document_.agent.version) await askCodes(document_.agent.version, signal);
    answeredAt = Date.now();
    trouble = null;
    signIn = '';
    showNew(document_);
    for (const loop of listLoops) loop.start();
  } catch (error) {
    if (!signal.aborted) failed(error);
  }
}

/** Shows the new document; one that cannot be shown is not kept. */
function showNew(document_) {
  const before = status;
  try {
    status = document_;
    show();
  } catch (error) {
    status = before;
    throw error;
  }
}

async function askCodes(version, signal) {
  if (codesOf) location.reload(); // another version of the agent: another page
  try {
    setCodes(await askJson('api/codes.json', signal));
    codesOf = version;
  } catch (error) {
    if (signal.aborted) throw error; // without them the agent's own English is shown; asked again next time
  }
}

function failed(error) {
  for (const loop of listLoops) loop.stop(); // until the next answer
  if (error instanceof Refused && error.status === 401) {
    askForToken(hasToken() ? 'sign_in_refused' : 'sign_in_title');
    return;
  }
  if (error instanceof Refused) trouble = { word: 'answers_error', values: { status: error.status, text: error.message } };
  else if (error instanceof Silent) trouble = silence();
  else trouble = { word: 'page_fault', values: { text: error.message } };
  show();
}

function silence() {
  return answeredAt ? { word: 'no_answer', values: { time: clockTime(answeredAt) } } : { word: 'no_answer_yet', values: {} };
}

function lister(kind, limit) {
  return async (signal) => {
    try {
      const page = await askJson(`api/${kind}?limit=${limit}`, signal);
      lists[kind] = { rows: page[kind], error: '' };
      showLists();
    } catch (error) {
      if (signal.aborted || error instanceof Silent) return; // silence is the status's to tell
      lists[kind] = { rows: null, error: error.message };
      showLists();
    }
  };
}

const loops = [new Loop(2000, askStatus), new Loop(1000, async () => showAge())];
/** These begin with the first answer: what the status may not see, they may not either. */
const listLoops = [new Loop(2000, lister('results', 20)), new Loop(5000, lister('events', 10)), pictures];

/** Asks while somebody looks. */
function look() {
  if (document.visibilityState === 'visible' && !signIn) {
    for (const loop of loops) loop.start();
  } else {
    for (const loop of [...loops, ...listLoops]) loop.stop();
  }
}

// -- showing ------------------------------------------------------------------------------------------------------------

function show() {
  showBanner();
  byId('sign-in').hidden = !signIn;
  byId('sign-out').hidden = !hasToken() || Boolean(signIn);
  byId('headline').hidden = Boolean(signIn) || (Boolean(trouble) && !status);
  byId('content').hidden = Boolean(signIn) || !status;
  document.body.classList.toggle('stale', Boolean(trouble));
  if (signIn) showSignIn();
  else if (status) showStatus();
  else showVerdict('off', say('connecting'));
}

function showStatus() {
  const { agent } = status;
  const name = agent.title || agent.id || 'edge-agent';
  const now = Date.parse((status.clock || {}).now) || Date.now();
  const found = faults(status);
  const whole = trouble ? { state: 'off', text: say('unknown_now') } : verdict(status, found);
  document.title = `${whole.text} · ${name}`;
  patch(byId('title'), name);
  const facts = [say('id', { id: agent.id }), say('version', { version: agent.version }), say('up', { age: duration(agent.uptime_s) })];
  patch(byId('identity'), facts.map((text, index) => h('span', null, index < 2 ? `${text} · ` : text)));
  showVerdict(whole.state, whole.text);
  patch(byId('faults'), found.map((fault) => faultRow(fault, now)));
  byId('cameras').dataset.count = status.cameras.length;
  patch(byId('cameras'), sections.cameras(status.cameras, enlarged));
  pictures.adopt(byId('cameras'), status.cameras);
  patch(byId('models'), sections.models(status.models));
  patch(byId('parts'), sections.parts(status));
  patch(byId('device'), sections.device(status));
  patch(byId('foot'), say('zone', { zone: Intl.DateTimeFormat().resolvedOptions().timeZone || '?' }));
  showLists();
}

function showVerdict(state, text) {
  byId('headline').dataset.state = state;
  byId('verdict-mark').className = `mark ${state}`;
  patch(byId('verdict'), text);
}

function showLists() {
  patch(byId('results'), sections.results(lists.results.rows, lists.results.error));
  patch(byId('events'), sections.events(lists.events.rows, lists.events.error));
}

/** The sentence is read out once; the age beside it is not. */
function showBanner() {
  byId('banner').hidden = !trouble || Boolean(signIn);
  patch(byId('banner-text'), trouble ? say(trouble.word, trouble.values) : '');
  showAge();
}

function showAge() {
  const silent = trouble && trouble.word.startsWith('no_answer');
  const seconds = (Date.now() - (answeredAt || openedAt)) / 1000;
  patch(byId('banner-age'), silent ? say(answeredAt ? 'no_answer_age' : 'no_answer_age_yet', { age: duration(seconds) }) : '');
}

function showWords() {
  for (const element of document.querySelectorAll('[data-word]')) patch(element, withCode(say(element.dataset.word)));
  patch(byId('language'), say('language'));
  byId('language').lang = languageCode() === 'en' ? 'zh-CN' : 'en';
}

// -- what people do -----------------------------------------------------------------------------------------------------

function askForToken(why) {
  setToken('');
  status = null;
  for (const kind of Object.keys(lists)) lists[kind] = { rows: null, error: '' };
  trouble = null;
  signIn = why;
  look();
  show();
  byId('token').focus();
}

function showSignIn() {
  document.title = say('sign_in_title');
  patch(byId('title'), 'edge-agent');
  patch(byId('identity'), '');
  patch(byId('sign-in-why'), signIn === 'sign_in_title' ? '' : say(signIn));
}

function useToken(event) {
  event.preventDefault();
  const field = byId('token');
  if (!setToken(field.value)) {
    signIn = 'sign_in_refused';
    show();
    return;
  }
  field.value = '';
  signIn = '';
  openedAt = Date.now();
  show();
  look();
}

function switchLanguage() {
  const other = languageCode() === 'en' ? 'zh' : 'en';
  setLanguage(other);
  stored(() => localStorage.setItem(LANGUAGE, other));
  showWords();
  show();
}

function enlarge(event) {
  const box = event.target.closest('[data-live]');
  if (!box) return;
  const name = box.dataset.live;
  if (!enlarged.delete(name)) enlarged.add(name);
  box.setAttribute('aria-pressed', String(enlarged.has(name)));
  if (status) showStatus();
}

function begin() {
  const browser = (navigator.language || '').toLowerCase().startsWith('zh') ? 'zh' : 'en';
  setLanguage(stored(() => localStorage.getItem(LANGUAGE)) || browser);
  showWords();
  show();
  byId('sign-in').addEventListener('submit', useToken);
  byId('sign-out').addEventListener('click', () => askForToken('sign_in_title'));
  byId('language').addEventListener('click', switchLanguage);
  byId('cameras').addEventListener('click', enlarge);
  document.addEventListener('visibilitychange', look);
  look();
}

begin();
