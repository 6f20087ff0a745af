"""Runs in a sandbox: does what a line of JSON on stdin says, and prints a line of JSON with what came of it.

It knows nothing of what is being tried: bytes in, bytes out, errors by their names. Standard library only.
"""
import errno, json, os, socket, ssl, struct, subprocess, sys, time

MAX_BYTES = 65536


def name_of(error):
    if isinstance(error, ssl.SSLError):
        return "TLS " + (error.reason or str(error))
    if isinstance(error, socket.gaierror):
        return "no address"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return errno.errorcode[error.errno]
    return type(error).__name__ + " " + str(error)


def connect(how):
    """`address`: dialled in the place of the name, as a forged answer would have it."""
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(how.get("family"), 0)
    found = socket.getaddrinfo(how.get("address", how["host"]), how["port"], family, socket.SOCK_STREAM)[0]
    stream = socket.socket(found[0], socket.SOCK_STREAM)
    stream.settimeout(how.get("seconds", 15))
    stream.connect(found[4])
    if "tls" not in how:
        return stream
    tls = how["tls"]
    context = ssl.create_default_context()
    if not tls.get("verify", False):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "alpn" in tls:
        context.set_alpn_protocols(tls["alpn"])
    return context.wrap_socket(stream, server_hostname=tls.get("sni"))


def issued_by_gateway(stream):
    certificate = stream.getpeercert(binary_form=True) if isinstance(stream, ssl.SSLSocket) else None
    return None if certificate is None else b"SPACE gateway" in certificate


def receive(stream, said, until):
    """Until `until` is in it, or its end."""
    while len(said) < MAX_BYTES and not (until and until.encode("latin-1") in said):
        piece = stream.recv(16384)
        if not piece:
            return
        said += piece


def do_tcp(how):
    said = bytearray()
    answer = {}
    stream = None
    try:
        stream = connect(how)
        answer["byGateway"] = issued_by_gateway(stream)
        pieces = how.get("say", [])
        for number, piece in enumerate(pieces):
            if number > 0:
                said += stream.recv(16384)
            stream.sendall(piece.encode("latin-1"))
        if how.get("shut"):
            stream.shutdown(socket.SHUT_WR)
        receive(stream, said, how.get("until"))
    except Exception as error:
        answer["error"] = name_of(error)
    finally:
        if stream is not None:
            stream.close()
    return {**answer, "said": said.decode("latin-1")}


# HTTP/2, as far as it is needed to say what a library would not let anybody say.

def integer(value, bits):
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out, value = [most], value - most
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + [value])


def text(value):
    raw = value.encode("latin-1")
    return integer(len(raw), 7) + raw


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


DIGITS = {"00000": "0", "00001": "1", "00010": "2", "011001": "3", "011010": "4", "011011": "5", "011100": "6",
          "011101": "7", "011110": "8", "011111": "9"}


def digits(raw, huffman):
    if not huffman:
        return raw.decode("latin-1")
    bits, out = "".join(format(byte, "08b") for byte in raw), ""
    while bits and len(out) < 3:
        size = next((size for size in (5, 6) if bits[:size] in DIGITS), None)
        if size is None:
            break
        out, bits = out + DIGITS[bits[:size]], bits[size:]
    return out


def status_of(block):
    """The status comes first; the table is empty, as asked."""
    while block and block[0] & 0xE0 == 0x20:
        block = block[1:]
    if not block:
        return None
    known = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
    if block[0] & 0x80:
        return known.get(block[0] & 0x7F)
    length = block[1] & 0x7F
    found = digits(block[2:2 + length], block[1] & 0x80)
    return int(found) if found.isdigit() else None


def do_h2(how):
    streams = {1 + 2 * number: {"status": None, "said": "", "heads": 0} for number in range(len(how["streams"]))}
    answer = {"streams": list(streams.values())}
    stream = None
    try:
        stream = connect({**how, "tls": {"alpn": ["h2"], **how["tls"]}})
        answer["byGateway"] = issued_by_gateway(stream)
        answer["alpn"] = stream.selected_alpn_protocol()
        out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HIHI", 1, 0, 2, 0))
        for number, asked in zip(streams, how["streams"]):
            body = asked.get("body")
            block = b"".join(b"\0" + text(name) + text(value) for name, value in asked["headers"])
            out += frame(1, 4 | (body is None), number, block)
            if body is not None:
                out += frame(0, 1, number, body.encode("latin-1"))
        stream.sendall(out)
        held, open_ones = b"", set(streams)
        while open_ones:
            piece = stream.recv(16384)
            if not piece:
                break
            held += piece
            while len(held) >= 9 and len(held) >= 9 + int.from_bytes(held[:3], "big"):
                size, kind, flags = int.from_bytes(held[:3], "big"), held[3], held[4]
                number, body, held = int.from_bytes(held[5:9], "big"), held[9:9 + size], held[9 + size:]
                told = streams.get(number)
                if kind == 4 and not flags & 1:
                    stream.sendall(frame(4, 1, 0))
                if kind == 7:
                    answer["goaway"] = int.from_bytes(body[4:8], "big")
                    open_ones.clear()
                if told is None:
                    continue
                if kind == 1:
                    told["heads"] += 1
                    if told["heads"] == 1:
                        told["status"] = status_of(body)
                if kind == 0 and len(told["said"]) < MAX_BYTES:
                    told["said"] += body.decode("latin-1")
                if kind == 3:
                    told["reset"] = int.from_bytes(body, "big")
                if kind == 3 or (kind in (0, 1) and flags & 1):
                    open_ones.discard(number)
    except Exception as error:
        answer["error"] = name_of(error)
    finally:
        if stream is not None:
            stream.close()
    return answer


def do_udp(how):
    family = socket.AF_INET6 if ":" in how["address"] else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as stream:
            stream.settimeout(how.get("seconds", 2))
            stream.sendto(how["say"].encode("latin-1"), (how["address"], how["port"]))
            return {"said": stream.recv(4096).decode("latin-1")}
    except Exception as error:
        return {"error": name_of(error), "said": ""}


def do_raw(how):
    """A packet of another protocol."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, how["protocol"]) as stream:
            stream.sendto(how["say"].encode("latin-1"), (how["address"], 0))
            return {"said": "sent"}
    except Exception as error:
        return {"error": name_of(error), "said": ""}


def do_dns(how):
    name = b"".join(integer(len(label), 8) + label.encode() for label in how["name"].split(".") if label) + b"\0"
    query = b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + name + struct.pack(">HH", how["kind"], 1)
    try:
        kind = socket.SOCK_STREAM if how.get("tcp") else socket.SOCK_DGRAM
        with socket.socket(socket.AF_INET, kind) as stream:
            stream.settimeout(how.get("seconds", 10))
            stream.connect((how["address"], 53))
            stream.sendall(struct.pack(">H", len(query)) + query if how.get("tcp") else query)
            told = stream.recv(4096)
            told = told[2:] if how.get("tcp") else told
            return {"code": told[3] & 15, "count": told[7], "said": ""}
    except Exception as error:
        return {"error": name_of(error), "said": ""}


def do_run(how):
    try:
        done = subprocess.run(how["argv"], input=how.get("stdin"), capture_output=True, text=True, errors="replace",
                              timeout=how.get("seconds", 60))
        return {"exit": done.returncode, "said": (done.stdout + done.stderr)[-MAX_BYTES:]}
    except Exception as error:
        return {"error": name_of(error), "said": ""}


def do_file(how):
    """Writes a file, or puts back what it was."""
    kept = how["path"] + ".before-conformance"
    if how.get("text") is None:
        os.replace(kept, how["path"])
    else:
        if not os.path.exists(kept):
            with open(how["path"]) as before, open(kept, "w") as copy:
                copy.write(before.read())
        with open(how["path"], "w") as file:
            file.write(how["text"])
    return {"said": ""}


def do_many(how):
    """As many connections as said, so many of them at once. How many opened, and were answered."""
    answered, refused, held = 0, {}, []
    def settle(stream):
        nonlocal answered
        try:
            stream.sendall(b"\0x")
            if stream.recv(2) == b"\0x":
                answered += 1
            else:
                refused["closed"] = refused.get("closed", 0) + 1
        except Exception as error:
            refused[name_of(error)] = refused.get(name_of(error), 0) + 1
        finally:
            stream.close()
    for _ in range(how["count"]):
        try:
            held.append(connect(how))
        except Exception as error:
            refused[name_of(error)] = refused.get(name_of(error), 0) + 1
        if len(held) >= how["atOnce"]:
            settle(held.pop(0))
    for stream in held:
        settle(stream)
    return {"said": "", "answered": answered, "refused": refused}


DO = {name[3:]: function for name, function in globals().items() if name.startswith("do_")}

for line in sys.stdin:
    answers = []
    for how in json.loads(line):
        begun = time.monotonic()
        try:
            answer = DO[how["do"]](how)
        except Exception as error:
            answer = {"error": name_of(error), "said": ""}
        answers.append({"error": None, **answer, "seconds": round(time.monotonic() - begun, 3)})
    print(json.dumps(answers), flush=True)
