"""A caller of POST /run-code whose interface is run_code(source, **options) -> a handle that can be awaited and terminated, with
functions of its own behind the bridge. Values cross as the interface says: encode() and decode() are its half of that."""

import base64
import datetime
import json
import math
import threading

from callback_server import CallbackServer

UNDEFINED = type("Undefined", (), {"__repr__": lambda _: "undefined"})()


class BigInt(int):
    """What stands for a bigint; other whole numbers are numbers."""


class Bytes:
    def __init__(self, ctor, data):
        self.ctor, self.data = ctor, data

    def __eq__(self, other):
        return isinstance(other, Bytes) and (self.ctor, self.data) == (other.ctor, other.data)

    def __repr__(self):
        return f"{self.ctor}({self.data!r})"


class Map(list):
    """[(key, value), …]"""


class Set(list):
    pass


NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}


def encode(value, functions):
    """`functions` gets the callables, by the ids that they travel under."""
    if value is UNDEFINED:
        return {"$type": "undefined"}
    if isinstance(value, BigInt):
        return {"$type": "bigint", "value": str(int(value))}
    if isinstance(value, float) and (not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0)):
        return {"$type": "number", "value": next(name for name, known in NUMBERS.items() if str(known) == str(value))}
    if isinstance(value, datetime.datetime):
        return {"$type": "date", "value": value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"}
    if isinstance(value, Bytes):
        return {"$type": "bytes", "ctor": value.ctor, "data": base64.b64encode(value.data).decode()}
    if isinstance(value, Map):
        return {"$type": "map", "entries": [[encode(key, functions), encode(item, functions)] for key, item in value]}
    if isinstance(value, Set):
        return {"$type": "set", "values": [encode(item, functions) for item in value]}
    if isinstance(value, (list, tuple)):
        return [encode(item, functions) for item in value]
    if isinstance(value, dict):
        if "$type" in value:
            return {"$type": "object", "entries": [[key, encode(item, functions)] for key, item in value.items()]}
        return {key: encode(item, functions) for key, item in value.items()}
    if callable(value):
        name = f"f{len(functions)}"
        functions[name] = value
        return {"$type": "function", "id": name}
    return value


def decode(value):
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$type" not in value:
        return {key: decode(item) for key, item in value.items()}
    return {
        "undefined": lambda: UNDEFINED,
        "bigint": lambda: BigInt(value["value"]),
        "number": lambda: NUMBERS[value["value"]],
        "date": lambda: value["value"] and datetime.datetime.strptime(value["value"], "%Y-%m-%dT%H:%M:%S.%fZ"),
        "map": lambda: Map((decode(key), decode(item)) for key, item in value["entries"]),
        "set": lambda: Set(decode(item) for item in value["values"]),
        "bytes": lambda: Bytes(value["ctor"], base64.b64decode(value["data"], validate=True)),
        "object": lambda: {key: decode(item) for key, item in value["entries"]},
    }[value["$type"]]()


class Handle:
    """A run: `running` until it has ended; wait() gives its reply."""

    def __init__(self, client, body):
        self.client, self.id, self.reply = client, body["execution_id"], None
        self.thread = threading.Thread(target=self.run, args=(body,), daemon=True)
        self.thread.start()

    def run(self, body):
        self.reply = self.client.post(body)

    @property
    def running(self):
        return self.thread.is_alive()

    def wait(self, seconds=60):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"still running after {seconds} s"
        return self.reply

    def terminate(self, reason=None):
        body = json.dumps({"reason": reason}) if reason is not None else None
        reply = self.client.server.request("POST", f"/run-code/{self.id}/terminate", body)
        assert (reply.status, reply.body) == (204, b"")


class Client:
    """Calls of its functions are answered by `callbacks`, a CallbackServer that the server's configuration allows."""

    runs = 0

    def __init__(self, server, callbacks):
        self.server, self.callbacks = server, callbacks

    def post(self, body):
        reply = self.server.request("POST", "/run-code", json.dumps(body))
        assert reply.status == 200, reply.body
        return reply.json

    def start(self, source, timeout_ms=None, **options):
        Client.runs += 1
        functions = {}
        for name in ("globals", "imports", "report"):
            if name in options:
                options[name] = encode(options[name], functions)
        if "args" in options:
            options["execute"] = {"args": [encode(value, functions) for value in options.pop("args")]}
        body = {"source": source, "options": options, "execution_id": f"run-{Client.runs}", "callback_url": self.callbacks.url}
        if timeout_ms is not None:
            body["timeout_ms"] = timeout_ms
        for name, function in functions.items():
            self.callbacks.functions[(body["execution_id"], name)] = function
        return Handle(self, body)

    def run(self, source, **options):
        return self.start(source, **options).wait()

    def value(self, source, **options):
        reply = self.run(source, **options)
        assert reply["status"] == "success", reply
        return decode(reply["result"])


class FunctionServer(CallbackServer):
    """A CallbackServer whose tools are the functions of runs."""

    def __init__(self):
        super().__init__({})
        self.functions, self.raw = {}, None  # what is answered whatever is called; None: what the functions say

    def answer(self, call):
        if self.raw is not None:
            return self.raw
        try:
            value = self.functions[(call["execution_id"], call["name"])](*map(decode, call["args"]))
            return {"data": json.dumps(encode(value, {}))}
        except Exception as error:  # the caller's own: its text is what the source hears
            return {"error": str(error)}
