// Before Node 22 there is no fs.globSync, which the conformance suite imports, and does not need to test a server.
import { register } from "node:module";

const stand_in = "export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = () => [];";
const hooks = `export const resolve = (name, context, next) => name === "fs" && context.parentURL?.includes("/conformance/")
  ? { url: "data:text/javascript,${encodeURIComponent(stand_in)}", shortCircuit: true } : next(name, context);`;
if (Number(process.versions.node.split(".")[0]) < 22) register(`data:text/javascript,${encodeURIComponent(hooks)}`);
