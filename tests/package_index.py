"""Package indexes on loopback, as threads of the test: pip's simple API and npm's registry; and what a program begins with that
asks for them itself."""

import hashlib
import http.server
import json
import threading
import urllib.parse

# Frames of the bridge (jail/runtime/README.md), without the prelude.
SPEAK = """
import json, os, struct, time
def frame(*several): os.write(4, b''.join(struct.pack('>I', len(data)) + data for data in several))
def say(**message): frame(json.dumps(message).encode())
def take(n):
    data = b''
    while len(data) < n:
        more = os.read(3, n - len(data))
        if not more: raise EOFError
        data += more
    return data
def hear():
    data = take(struct.unpack('>I', take(4))[0])
    return (int.from_bytes(data[1:9], 'big'), data[9:]) if data[:1] == b'\\1' else json.loads(data)
def data(id, *payloads): frame(*(b'\\1' + id.to_bytes(8, 'big') + payload for payload in payloads))
hear()
"""


class Index:
    """`with Index() as index:` serves until the block ends. `files`: path -> bytes, or a function that is given the request's
    handler and answers by itself. `asked` lists the paths that were asked for."""

    def __init__(self, files=None):
        self.files, self.asked, index = dict(files or {}), [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
                index.asked.append(path)
                found = index.files.get(path)
                if callable(found):
                    found(self)
                    return
                self.send_response(404 if found is None else 200)
                kind = ("text/html" if path.endswith("/") else
                        "application/json" if found and found[:1] == b"{" else "application/octet-stream")
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(found or b"")))
                self.end_headers()
                self.wfile.write(found or b"")

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *_):
                pass  # whoever hangs up hangs up

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # pip

    def add_python(self, *packages, base=""):
        """(file name, bytes) pairs; `base`: where the files are said to lie, if not here."""
        for name, data in packages:
            project = name.split("-")[0].replace("_", "-").lower()
            page = self.files.get(f"/simple/{project}/", b"")
            link = f'<a href="{base}/files/{name}#sha256={hashlib.sha256(data).hexdigest()}">{name}</a><br>\n'
            self.files[f"/simple/{project}/"] = page + link.encode()
            self.files[f"/files/{name}"] = data

    # npm

    def add_node(self, name, version, tarball, base=None, **manifest):
        place = f"/{name}"
        document = json.loads(self.files.get(place, b"null")) or {"name": name, "versions": {}, "dist-tags": {}}
        file = f"{name.split('/')[-1]}-{version}.tgz"
        document["dist-tags"]["latest"] = version
        document["versions"][version] = {"name": name, "version": version, **manifest, "dist": {
            "tarball": f"{self.url if base is None else base}/{name}/-/{file}", "shasum": hashlib.sha1(tarball).hexdigest()}}
        self.files[place] = json.dumps(document).encode()
        self.files[f"{place}/-/{file}"] = tarball
