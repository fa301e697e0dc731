// Jobs that wait for somebody's word: the queue, each job as a whole, the decision. What is decided about is what was shown: a job
// does not change after it was submitted, and the server holds it against `job_sha256` before it runs.

import {ApiError, every} from './api.js';
import {bytes, clock, el, errorNote, facts, labelled, note, relative, shown, table} from './dom.js';
import {listing} from './listing.js';

const AGAIN_MS = 2000;
const SENTENCES = {
  pending: 'It waits for a decision.', approved: 'It was approved, and waits for a slot.', running: 'It was approved, and runs.',
  done: 'It was approved, and has run.', rejected: 'It was rejected.', expired: 'Nobody has decided in time.',
  lost: 'It was approved, but nobody knows what became of it.',
};

/** Puts what `make` gives into `place`, where it is not what is there already: whoever reads or has a focus there is left alone. */
function keeper(place) {
  let last;
  return (about, make) => {
    const text = JSON.stringify(about);
    if (text !== last) place.replaceChildren(make());
    last = text;
  };
}

function queue(approvals) {
  if (approvals.length === 0) return el('p', {}, 'Nothing waits for an approval.');
  return table(`${approvals.length} jobs wait, the oldest first.`, ['Job', 'Key', 'Team', 'Policy', 'Runtime', 'Age', 'Expires'], approvals.map(one => [
    el('a', {href: `#approvals/${encodeURIComponent(one.approval_id)}`}, shown(firstLine(one.code))), one.key, one.team ?? '', one.policy, one.runtime,
    relative(one.created_at, 'age'), relative(one.expires_at, 'until')]));
}

function firstLine(code) {
  const line = (code.split('\n').find(text => text.trim()) ?? '').trim();
  return line.length > 80 ? `${line.slice(0, 80)} …` : line || '(an empty program)';
}

function textOf(base64) {
  return new TextDecoder('utf-8', {ignoreBOM: true}).decode(Uint8Array.from(atob(base64), char => char.charCodeAt(0)));
}

/** The texts of a job, each with its title. */
function textsOf(approval) {
  const job = approval.job ?? {};
  const files = (job.files ?? []).map(file => [el('span', {}, 'File ', shown(file.name), ` (${bytes(file.size)})`), textOf(file.data ?? '')]);
  const input = job.stdin ? [['Standard input', job.stdin]] : [];
  return [...files, ...input, [approval.code_truncated ? 'The beginning of the code' : 'Code', approval.code]];
}

/** Nothing becomes of a job any more. */
const FINAL = ['done', 'rejected', 'expired', 'lost'];
const NETWORKS = {none: 'none', loopback: 'its own loopback alone', egress: 'hosts that the policy names'};

const list = texts => texts?.length > 0 ? el('ul', {}, texts.map(text => el('li', {}, shown(text)))) : null;

/** What the policy gives, as far as this key is told. */
function policyFacts(policies, approval) {
  const policy = policies.find(one => one.name === approval.policy);
  const title = el('h2', {}, 'What the policy gives');
  if (!policy) return [title, el('p', {}, 'This key may not use the policy, and is not told what it gives.')];
  const {limits} = policy, wanted = approval.job?.limits ?? {};
  const limit = name => wanted[name] ?? limits[name];
  return [title, el('p', {class: 'faint'}, 'Limits are those of your own key; the job\'s key may have others.'), facts([
    ['Image of the policy', policy.image],
    ['Network', NETWORKS[policy.network] ?? policy.network], ['Memory', bytes(limit('memory_bytes'))],
    ['Processes', limit('pids') ?? 'no limit'], ['Scratch', bytes(limit('scratch_bytes'))], ['Output', bytes(limit('output_bytes'))],
    ['Policy as now', policy.sha256 === approval.policy_sha256 ? 'the same as when the job was submitted' : 'another than when the job was submitted: the job cannot be approved'],
  ])];
}

const hash = text => text && el('span', {class: 'hash'}, shown(text));

function jobFacts(approval) {
  const job = approval.job ?? {};
  const env = (job.env ?? []).map(({name, value}) => `${name}=${value}`);
  const limits = Object.entries(job.limits ?? {}).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${value}`);
  return facts([
    ['Key', approval.key], ['Team', approval.team], ['Policy', approval.policy], ['Runtime', approval.runtime],
    ['Submitted', el('span', {}, clock(approval.created_at), ', ', relative(approval.created_at, 'age'), ' ago')],
    ['Expires', approval.status === 'pending' ? relative(approval.expires_at, 'until') : null],
    ['Execution', approval.execution_id], ['Session', job.session_id], ['Image', job.image], ['Tool calls go to', job.callback_url],
    ['Arguments', list(job.args)], ['Variables', list(env)], ['Outputs', list(job.outputs)], ['Limits asked for', list(limits)],
    ['SHA-256 of the code', hash(approval.sha256)], ['SHA-256 of the job', hash(approval.job_sha256)],
    ['SHA-256 of the policy', hash(approval.policy_sha256)],
  ]);
}

function standing(approval) {
  const who = approval.decided_by && el('span', {}, ' Decided by ', shown(approval.decided_by), '.');
  const why = approval.reason && el('span', {}, ' Reason: ', shown(approval.reason));
  const outcome = approval.outcome && el('span', {}, ' Outcome: ', shown(approval.outcome));
  const kind = {pending: '', rejected: 'bad', expired: 'odd', lost: 'bad'}[approval.status] ?? 'good';
  return note(kind, el('strong', {}, SENTENCES[approval.status] ?? shown(approval.status)), who, why, outcome);
}

/** The form under a job. `decide` gives a note. It can be used once all of the job is to be seen. */
function decisionForm(whole, decide) {
  const reason = el('input', {name: 'reason', maxlength: '512', autocomplete: 'off'});
  const buttons = ['approve', 'reject'].map((decision, i) => el('button', {
    type: 'button', disabled: true, name: decision, class: i === 0 && 'main', onclick: () => decided(decision),
  }, ['Approve', 'Reject'][i]));
  let isOver = false;
  const enable = on => buttons.forEach(button => { button.disabled = !on || isOver; });
  const said = el('div', {}, el('p', {class: 'faint'}, 'You can decide once all of the job is on the page.'));
  async function decided(decision) {
    enable(false);
    if (!await decide(decision, reason.value, said)) enable(true);
  }
  whole.then(() => {
    said.replaceChildren();
    enable(true);
  });
  const end = () => {
    isOver = true;
    enable(false);
  };
  return {end, element: el('section', {class: 'decision', 'aria-label': 'Decision'}, said, el('div', {class: 'row'},
    labelled('Reason, for the caller and the audit log', reason), buttons))};
}

function job(api, id, approval, policies, signal) {
  const listings = textsOf(approval).map(([title, text]) => ({title, ...listing(typeof title === 'string' ? title : title.textContent, text, signal)}));
  const state = el('div', {}, standing(approval));
  const told = keeper(state);
  const look = async () => {
    const now = await api.get(`approvals/${encodeURIComponent(id)}`, signal);
    told([now.status, now.outcome], () => standing(now));
    return now;
  };
  const decide = async (decision, reason, said) => {
    try {
      await api.json('POST', `approvals/${encodeURIComponent(id)}`, {body: {decision, ...(reason && {reason})}});
    } catch (error) {
      const isLate = error instanceof ApiError && error.status === 409;
      const now = isLate ? await look().catch(() => approval) : approval;
      if (!isLate || now.status === 'pending') {
        said.replaceChildren(errorNote(error));
        return false;
      }
      said.replaceChildren(note('odd', el('strong', {}, 'Your decision came too late. '), shown(error.message), ' ', standing(now).textContent));
      return true;
    }
    said.replaceChildren(note('good', decision === 'approve' ? 'You have approved it.' : 'You have rejected it.'));
    look().catch(error => said.append(errorNote(error)));
    return true;
  };
  const form = approval.status === 'pending' && approval.job && !approval.code_truncated && decisionForm(Promise.all(listings.map(one => one.whole)), decide);
  // While it is pending the list tells when it is no more: the job itself may be large.
  let isPending = approval.status === 'pending';
  every(AGAIN_MS, signal, async () => {
    if (isPending) {
      const {approvals} = await api.get('approvals', signal);
      isPending = approvals.some(one => one.approval_id === id);
    }
    if (isPending) {
      told([approval.status, approval.outcome], () => standing(approval)); // in place of an error
      return;
    }
    if (FINAL.includes(approval.status)) return;
    approval = await look();
    if (form) form.end();
  }, error => told(error.message, () => errorNote(error)));
  return [state, jobFacts(approval), policyFacts(policies, approval),
    listings.map(({title, element}) => [el('h2', {}, title), element]), form && form.element];
}

function onePage(api, id, signal) {
  const place = el('div', {}, el('p', {}, 'Loading.'));
  const load = async () => {
    const [approval, {policies}] = await Promise.all([api.get(`approvals/${encodeURIComponent(id)}`, signal), api.get('policies', signal)]);
    place.replaceChildren(...[job(api, id, approval, policies, signal)].flat(Infinity).filter(Boolean));
  };
  load().catch(error => signal.aborted || place.replaceChildren(errorNote(error)));
  return el('div', {}, el('p', {}, el('a', {href: '#approvals'}, 'All that waits')), el('h1', {}, 'A job that needs an approval'), place);
}

export function approvalsPage(api, id, signal) {
  if (id) return onePage(api, id, signal);
  const place = el('div', {}, el('p', {}, 'Loading.')), put = keeper(place);
  every(AGAIN_MS, signal, async () => {
    const {approvals} = await api.get('approvals', signal);
    put(approvals, () => queue(approvals));
  }, error => put(error.message, () => errorNote(error)));
  return el('div', {}, el('h1', {}, 'Approvals'), place);
}
