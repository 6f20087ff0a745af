/** Root takes the ports of the agent, and says random bytes in its place from then on. The guest is not to be asked anything after it. */
export const NONSENSE = `python3 -c '
import glob, os
if os.fork() == 0:
    os.setsid()
    for fd in range(3): os.close(fd)
    os.chdir("/sys/bus/virtio/drivers/virtio_console")
    device = glob.glob("virtio*")[0]
    for change in ("unbind", "bind"):
        with open(change, "w") as file: file.write(device)
    ports = []
    while len(ports) < 2:
        try: ports.append(os.open("/dev/vport1p%d" % (len(ports) + 1), os.O_RDWR | os.O_NONBLOCK))
        except OSError: pass
    garbage = os.urandom(1 << 16)
    while True:
        for port in ports:
            try: os.write(port, garbage)
            except BlockingIOError: pass
'`;
