// piston.mjs URL: what piston-client finds, by its documented first example.

import piston from 'piston-client';

const client = piston({server: process.argv[2]});
const runtimes = await client.runtimes();
const result = await client.execute('python', 'print("Hello World!")');
const more = await client.execute({language: 'python', files: [{name: 'main.py', content: 'import sys; print(input(), sys.argv[1:])'}], stdin: 'in', args: ['a']});
console.log(JSON.stringify({languages: runtimes.map(row => row.language), result, more}));
