// Elements, made of text alone: what a program or a caller wrote is a text node, with what is not to be seen spelled out, and never
// markup. Nothing here takes a string of HTML.

import {shownParts} from './shown.js';

/** Text of others, as nodes: what is spelled out looks different from the same characters in the text. */
export function shown(text) {
  const fragment = document.createDocumentFragment();
  for (const [part, isSpelled] of shownParts(String(text ?? ''))) {
    fragment.append(isSpelled ? el('span', {class: 'spelled'}, part) : document.createTextNode(part));
  }
  return fragment;
}

/** An element: attributes, `on...` listeners; children are nodes, our own texts, or lists of these. Texts of others go through shown(). */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, '');
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter(child => child != null && child !== false));
  return element;
}

/** A sentence about what has happened, which screen readers tell. */
export const note = (kind, ...children) => el('p', {class: `note ${kind}`, role: kind === 'bad' ? 'alert' : 'status'}, ...children);

export const errorNote = error => note('bad', el('strong', {}, 'This did not work. '), shown(error.message));

/** A control with its label: the control is the first one after the text. */
export const labelled = (text, control) => el('label', {}, control.type === 'checkbox' ? [control, text] : [text, control]);

export const choice = (name, options, chosen) => el('select', {name}, options.map(([value, text]) =>
  el('option', {value, selected: value === chosen}, shown(text ?? value))));

/** Rows of a term and what stands for it; those of null are left out. */
export const facts = rows => el('dl', {}, rows.filter(([, value]) => value != null && value !== '').map(([term, value]) =>
  [el('dt', {}, term), el('dd', {}, value instanceof Node ? value : shown(value))]));

/** A table with titles; cells are nodes, or texts of others. */
export function table(caption, titles, rows) {
  const cell = (value, i) => el('td', {'data-title': titles[i]}, value instanceof Node ? value : shown(value));
  return el('div', {class: 'wide'}, el('table', {class: 'stacked'}, el('caption', {}, caption),
    el('thead', {}, el('tr', {}, titles.map(title => el('th', {scope: 'col'}, title)))),
    el('tbody', {}, rows.map(row => el('tr', {}, row.map(cell))))));
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(number) {
  if (number == null) return 'none';
  let unit = 0;
  for (; number >= 1024 && unit < UNITS.length - 1; unit++) number /= 1024;
  return `${Number.isInteger(number) ? number : number.toFixed(1)} ${UNITS[unit]}`;
}

export function duration(ms) {
  const s = Math.round(ms / 1000);
  if (ms < 10000) return `${(ms / 1000).toFixed(ms < 1000 ? 2 : 1)} s`;
  if (s < 120) return `${s} s`;
  return s < 7200 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}

export const clock = iso => el('time', {datetime: iso, title: iso}, new Date(iso).toLocaleTimeString());

/** How long ago, or until, a moment is; kept up to date by tick(). */
export function relative(iso, kind) {
  const element = el('time', {datetime: iso, title: iso, 'data-relative': kind});
  tell(element);
  return element;
}

function tell(element) {
  const ms = new Date(element.dateTime) - Date.now();
  const isAge = element.dataset.relative === 'age';
  element.textContent = isAge ? duration(Math.max(0, -ms)) : ms > 0 ? `in ${duration(ms)}` : 'over';
}

export const tick = root => root.querySelectorAll('[data-relative]').forEach(tell);
