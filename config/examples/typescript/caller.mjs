import {readFileSync} from 'node:fs';
import {Immure} from '../../../server/clients/js/immure.js';

const client = new Immure({url: process.env.IMMURE_URL, key: process.env.IMMURE_KEY});
const stock = {apples: 3, pears: 0};

const {status, result, logs} = await client.runCode(readFileSync('order.ts', 'utf8'), {
  imports: {shop: {inStock: fruit => stock[fruit] ?? 0}},
  execute: {args: [[{fruit: 'apples', count: 2}, {fruit: 'pears', count: 1}]]},
});
console.log(status, result);
console.log('it said:', ...logs.flatMap(({args}) => args));
