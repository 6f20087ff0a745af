"""What E2B's Python SDK does in a sandbox, unmodified. Where it is reached is said by E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY."""

import time

from e2b import CommandExitException, FileNotFoundException, Sandbox, TimeoutException


def raised(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def use(sandbox):
    result = sandbox.commands.run("echo out; echo err >&2; echo $GIVEN")
    assert (result.stdout, result.stderr) == ("out\nat create\n", "err\n"), result
    assert raised(CommandExitException, lambda: sandbox.commands.run("exit 3")).exit_code == 3
    raised(TimeoutException, lambda: sandbox.commands.run("sleep 100", timeout=1))

    cat = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(cat.pid, "text\n")
    sandbox.commands.close_stdin(cat.pid)
    assert cat.wait().stdout == "text\n"
    sleep = sandbox.commands.run("sleep 100", background=True)
    assert sleep.pid in [process.pid for process in sandbox.commands.list()]
    assert [sandbox.commands.kill(sleep.pid) for _ in range(2)] == [True, False]

    content = bytes(range(256)) * 1000
    sandbox.files.write("b.bin", content)
    assert bytes(sandbox.files.read("b.bin", format="bytes")) == content
    assert b"".join(sandbox.files.read("b.bin", format="stream")) == content
    assert sandbox.files.get_info("b.bin").size == len(content)
    assert [sandbox.files.make_dir("d") for _ in range(2)] == [True, False]
    raised(FileNotFoundException, lambda: sandbox.files.read("none"))

    watch = sandbox.files.watch_dir("d")
    sandbox.files.write("d/new", "x")
    seen = []
    for _ in range(100):
        seen += [(event.type.value, event.name) for event in watch.get_new_events()]
        if ("create", "new") in seen:
            break
        time.sleep(0.1)
    assert ("create", "new") in seen, seen
    watch.stop()


sandbox = Sandbox.create(envs={"GIVEN": "at create"})
try:
    use(sandbox)
finally:
    assert sandbox.kill()
assert not sandbox.is_running()
print("done")
