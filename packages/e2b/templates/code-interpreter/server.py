"""What E2B's code interpreter asks of port 49999: code is run in contexts, and what it gives is streamed as lines of JSON.

A context is an IPython kernel in a process of its own. One request at a time runs in it, the others wait; a client that leaves interrupts
what it has begun. Nothing but the loopback of the sandbox is listened on: who may come in is judged outside.
"""

import json
import os
import queue
import re
import select
import shutil
import socket
import sys
import tempfile
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jupyter_client.manager import KernelManager

PORT = 49999
HOME = os.path.expanduser("~")
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_CONTEXTS = 32
START_TIMEOUT_S = 120
KEEPALIVE_S = 5
# How often it is looked whether the client is still there.
LOOK_S = 0.5
LANGUAGES = ("python", "python3")
# Change when the sandbox has been put back, or is another one: what its programs have drawn must not be drawn again.
IDENTITY_FILES = ("/run/space/generation", "/etc/machine-id")

FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}

RESEED = "import random as _r; _r.seed(); del _r\nimport sys as _s\nif 'numpy' in _s.modules: _s.modules['numpy'].random.seed()\ndel _s"


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def identity():
    texts = []
    for path in IDENTITY_FILES:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read(1024))
        except OSError:
            texts.append("")
    return texts


class Context:
    def __init__(self, language, cwd):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self.lock = threading.Lock()
        self.identity = identity()
        # By sockets that are files, which only this user can open.
        self.folder = tempfile.mkdtemp(prefix="context-")
        self.manager = KernelManager(kernel_name="python3", transport="ipc", ip=os.path.join(self.folder, "kernel"))
        self.manager.start_kernel(cwd=cwd)
        self.client = self._connect()

    def _connect(self):
        client = self.manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=START_TIMEOUT_S)
        return client

    def shown(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def restart(self):
        # Not in its turn: what runs in it for ever is what a restart is for.
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self.client = self._connect()

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def quietly(self, code):
        """Runs code of our own, of which nothing is told."""
        id = self.client.execute(code, silent=True, store_history=False)
        while True:
            reply = self.client.get_shell_msg(timeout=START_TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == id:
                return

    def run(self, code, env, tell, is_gone):
        with self.lock:
            now = identity()
            if now != self.identity:
                self.identity = now
                self.quietly(RESEED)
            if env:
                self.quietly(
                    "import os as _o, json as _j\n"
                    f"_space_env = {{k: _o.environ.get(k) for k in _j.loads({json.dumps(json.dumps(env))})}}\n"
                    f"_o.environ.update(_j.loads({json.dumps(json.dumps(env))})); del _o, _j"
                )
            try:
                self._run(code, tell, is_gone)
            finally:
                if env and self.manager.is_alive():
                    self.quietly(
                        "import os as _o\n"
                        "for _k, _v in _space_env.items():\n"
                        "    _o.environ.pop(_k, None) if _v is None else _o.environ.__setitem__(_k, _v)\n"
                        "del _o, _k, _v, _space_env"
                    )

    def _run(self, code, tell, is_gone):
        client = self.client
        id = client.execute(code, store_history=True, allow_stdin=False)
        spoken = looked = time.monotonic()
        left = False
        while True:
            try:
                message = client.get_iopub_msg(timeout=LOOK_S)
            except queue.Empty:
                message = None
            now = time.monotonic()
            if message is None and (client is not self.client or not self.manager.is_alive()):
                return None if left else tell(
                    {"type": "error", "name": "ContextRestarting", "value": "Context was restarted", "traceback": ""}
                )
            try:
                if not left and now - looked >= LOOK_S:
                    looked = now
                    if is_gone():
                        raise ConnectionResetError
                    if now - spoken >= KEEPALIVE_S:
                        spoken = now
                        tell({"type": "keepalive"})
                if message is None or message["parent_header"].get("msg_id") != id:
                    continue
                for line in lines_of(message) if not left else ():
                    spoken = now
                    tell(line)
            except OSError:
                # The client has left. What it began is interrupted, and its end is waited for, so that nothing of it meets the next.
                left = True
                self.manager.interrupt_kernel()
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                if left:
                    raise ConnectionResetError
                return None


def lines_of(message):
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        yield {"type": content["name"], "text": content["text"], "timestamp": time.time_ns() // 1000}
    elif kind in ("execute_result", "display_data"):
        yield result_of(content["data"], kind == "execute_result")
    elif kind == "error":
        traceback = "\n".join(content["traceback"])
        yield {"type": "error", "name": content["ename"], "value": content["evalue"], "traceback": traceback}
    elif kind == "execute_input":
        yield {"type": "number_of_executions", "execution_count": content["execution_count"]}


def result_of(data, is_main):
    result, extra = {"type": "result", "is_main_result": is_main}, {}
    for mime, value in data.items():
        if mime in FIELDS:
            result[FIELDS[mime]] = value
        else:
            extra[mime] = value
    text = result.get("text")
    # A text is shown as it is, and not as Python writes it.
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] == "'":
        result["text"] = text[1:-1]
    if extra:
        result["extra"] = extra
    return result


class Contexts:
    def __init__(self):
        self.lock = threading.Lock()
        self.all = {}
        self.default = self.create("python", HOME)

    def create(self, language, cwd):
        language = (language or "python").lower()
        if language not in LANGUAGES:
            raise Refused(400, f"The language {language!r} is not supported by this template: it runs Python.")
        cwd = cwd or HOME
        if not os.path.isdir(cwd):
            raise Refused(400, f"The directory {cwd!r} does not exist.")
        with self.lock:
            if len(self.all) >= MAX_CONTEXTS:
                raise Refused(429, f"There can be {MAX_CONTEXTS} contexts: remove one.")
            context = Context("python", cwd)
            self.all[context.id] = context
            return context

    def find(self, id):
        if id == "default":
            id = self.default.id
        if id not in self.all:
            raise Refused(404, f"Context {id} not found")
        return self.all[id]

    def remove(self, id):
        context = self.find(id)
        with self.lock:
            del self.all[context.id]
        context.close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    contexts = None

    def log_message(self, format, *args):
        pass

    def body(self):
        size = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b"".join(self.chunks())
        elif 0 <= size <= MAX_BODY_BYTES:
            raw = self.rfile.read(size)
        else:
            raise Refused(413, "The body is too large.")
        try:
            value = json.loads(raw or b"{}")
        except ValueError:
            raise Refused(400, "The body is no JSON.")
        if not isinstance(value, dict):
            raise Refused(400, "The body is no JSON object.")
        return value

    def chunks(self):
        left = MAX_BODY_BYTES
        while True:
            size = int(self.rfile.readline(64).split(b";")[0], 16)
            left -= size
            if left < 0:
                raise Refused(413, "The body is too large.")
            data = self.rfile.read(size)
            self.rfile.readline(64)
            if size == 0:
                return
            yield data

    def answer(self, status, value=None):
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_call(self, method):
        path = self.path.split("?", 1)[0]
        try:
            self.route(method, path)
        except Refused as refusal:
            self.answer(refusal.status, {"code": refusal.status, "message": str(refusal)})
        except OSError:
            self.close_connection = True

    def route(self, method, path):
        context = re.fullmatch(r"/contexts/([0-9A-Za-z-]{1,64})(/restart)?", path)
        if (method, path) == ("GET", "/health"):
            return self.answer(200, "OK")
        if (method, path) == ("POST", "/execute"):
            return self.execute(self.body())
        if (method, path) == ("GET", "/contexts"):
            return self.answer(200, [one.shown() for one in list(self.contexts.all.values())])
        if (method, path) == ("POST", "/contexts"):
            asked = self.body()
            return self.answer(200, self.contexts.create(asked.get("language"), asked.get("cwd")).shown())
        if context and method == "POST" and context[2]:
            self.body()
            self.contexts.find(context[1]).restart()
            return self.answer(204)
        if context and method == "DELETE" and not context[2]:
            self.contexts.remove(context[1])
            return self.answer(204)
        raise Refused(404, f"There is no call {method} {path}.")

    def execute(self, asked):
        code, id, language = asked.get("code"), asked.get("context_id"), asked.get("language")
        env = asked.get("env_vars") or {}
        if not isinstance(code, str) or not isinstance(env, dict):
            raise Refused(400, "code must be text, and env_vars an object.")
        if id and language:
            raise Refused(400, "Only one of context_id or language can be provided")
        if language and language.lower() not in LANGUAGES:
            raise Refused(400, f"The language {language!r} is not supported by this template: it runs Python.")
        context = self.contexts.find(id) if id else self.contexts.default
        if context.id not in self.contexts.all:
            context = self.contexts.default = self.contexts.create("python", HOME)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        context.run(code, {str(k): str(v) for k, v in env.items()}, self.tell, self.is_gone)
        self.tell({"type": "end_of_execution"})
        self.wfile.write(b"0\r\n\r\n")

    def tell(self, line):
        data = json.dumps(line).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def is_gone(self):
        if not select.select([self.connection], [], [], 0)[0]:
            return False
        return self.connection.recv(1, socket.MSG_PEEK) == b""

    def do_GET(self):
        self.handle_call("GET")

    def do_POST(self):
        self.handle_call("POST")

    def do_DELETE(self):
        self.handle_call("DELETE")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    Handler.contexts = Contexts()
    # Its first run imports what every later one needs.
    Handler.contexts.default.quietly("1 + 1")
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else PORT), Handler)
    server.serve_forever()


if __name__ == "__main__":
    main()
