// The page: who is signed in, which part of it is shown. Each part is a function of the API, of what the address names behind its
// own name, and of a signal that ends it; it gives an element.

import {Api, ApiError, isKey} from './api.js';
import {approvalsPage} from './approvals.js';
import {el, errorNote, labelled, note, tick} from './dom.js';

const PAGES = [
  ['approvals', 'Approvals', approvalsPage],
];
const STORED = 'immure-key';
const header = document.getElementById('header'), main = document.getElementById('main');

/** All that changes: who is signed in (null: nobody), and what ends the part that is shown. */
const state = {api: null, leave: new AbortController()};

function signOut(...why) {
  sessionStorage.removeItem(STORED);
  state.api = null;
  show(...why);
}

function signIn(key) {
  const api = new Api(key, () => {
    // Requests that were under way when somebody else signed in are not about them.
    if (state.api === api) signOut(note('bad', 'You have been signed out: the server takes this key no more. It was revoked, or has expired.'));
  });
  return api;
}

function signInForm(...why) {
  const key = el('input', {type: 'password', name: 'key', autocomplete: 'off', spellcheck: 'false'});
  const keep = el('input', {type: 'checkbox', name: 'keep'});
  const said = el('div', {}, why);
  const tried = async event => {
    event.preventDefault();
    if (!isKey(key.value)) {
      said.replaceChildren(note('bad', 'A key has letters, digits and signs of ASCII, and no spaces.'));
      return;
    }
    const api = signIn(key.value);
    try {
      await api.get('runtimes');
    } catch (error) {
      said.replaceChildren(error instanceof ApiError && error.status === 401 ? note('bad', 'The server does not know this key.') : errorNote(error));
      return;
    }
    if (keep.checked) sessionStorage.setItem(STORED, key.value);
    state.api = api;
    show();
  };
  return el('form', {class: 'narrow', onsubmit: tried}, el('h1', {}, 'immure: sign in'), said,
    el('p', {}, 'This page calls the server with your key, and can do what that key may. The key stays in this tab.'),
    labelled('Key', key), labelled('Keep it until the tab is closed, also when the page is loaded again', keep),
    el('button', {class: 'main'}, 'Sign in'));
}

function navigation(current) {
  return el('nav', {'aria-label': 'Pages'}, el('strong', {}, 'immure'),
    PAGES.map(([name, title]) => el('a', {href: `#${name}`, 'aria-current': name === current && 'page'}, title)),
    el('button', {type: 'button', onclick: () => signOut(note('good', 'You have signed out.'))}, 'Sign out'));
}

/** The part that the address names: "#live/s%2F1" is `live`, about "s/1". */
function place() {
  const [, name, argument] = /^#([a-z]*)(?:\/(.*))?$/.exec(location.hash) ?? [];
  const page = PAGES.find(row => row[0] === name) ?? PAGES[0];
  let about = '';
  try {
    about = decodeURIComponent(argument ?? '');
  } catch { /* it names nothing */ }
  return [page, about];
}

function show(...why) {
  state.leave.abort();
  state.leave = new AbortController();
  if (!state.api) {
    document.title = 'immure: sign in';
    header.replaceChildren();
    main.replaceChildren(signInForm(...why));
    main.querySelector('input').focus();
    return;
  }
  const [[name, title, page], argument] = place();
  document.title = `immure: ${title}`;
  header.replaceChildren(navigation(name));
  main.replaceChildren(page(state.api, argument, state.leave.signal));
  main.focus();
}

window.addEventListener('hashchange', () => {
  if (location.hash === '#main') main.focus();
  else if (state.api) show();
});
setInterval(() => tick(main), 1000);
const stored = sessionStorage.getItem(STORED);
if (stored !== null) state.api = signIn(stored);
show();
