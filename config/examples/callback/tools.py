"""Answers the calls of programs. Prints the port that it listens on."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer


def temperature(city):
    return {"Oslo": -3, "Cairo": 24}[city]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if call["name"] == "temperature":
            answer = {"data": json.dumps(temperature(**call["args"]))}
        else:
            answer = {"error": "there is no such tool"}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
