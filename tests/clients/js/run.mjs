// run.mjs URL KEY: the suite in Node, Deno or Bun; a line of JSON for each test.

import {tests} from './suite.mjs';

const [url, key] = (globalThis.Deno ? Deno.args : process.argv.slice(2));
for (const [name, test] of tests({url, key})) {
  let error, note;
  try {
    note = await test();
  } catch (reason) {
    error = String(reason?.stack ?? reason);
  }
  console.log(JSON.stringify({name, error, note}));
}
