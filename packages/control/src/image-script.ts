/**
 * What is done in the sandbox of a build to make its disk that of an image. It runs there as root, in Python, beside skopeo (which
 * opens archives and checks every digest) and umoci (which unpacks layers, whiteouts, links and
 * attributes): nothing of an image is read anywhere else, and one that breaks out of its folder has broken into nothing but the
 * sandbox that it would have become.
 *
 * In one process, since what it was started from goes while it runs: the system that was there is put aside, name by name, the
 * image's takes its place, and the old one is removed. Then the sandbox boots again. The agent needs nothing of the disk; what
 * commands need, and an image may lack, is added: entries of `root` and `user`, a name for the shell, certificates, a name server.
 *
 * Argument: the archive's path. What the image says of commands is left in IMAGE_RESULT.
 * It ends with 65 and one line on stderr when the image cannot be had, or cannot be one of ours.
 */
export const IMAGE_SCRIPT = `
import json, os, re, shutil, subprocess, sys, tarfile

WORK, OLD = '/.space-image', '/.space-old'
LAYOUT, ROOT = WORK + '/layout', WORK + '/rootfs'
STAYS = {'dev', 'proc', 'sys', 'run', 'lost+found', WORK[1:], OLD[1:]}
MAX_LAYERS, MAX_JSON = 256, 8 << 20
OURS = ('/etc/hosts', '/etc/hostname', '/etc/resolv.conf', '/etc/machine-id')
BUNDLE = '/etc/ssl/certs/ca-certificates.crt'

def refuse(why):
    sys.stderr.write(why.replace('\\n', ' ')[:1000] + '\\n')
    sys.stderr.flush()
    os._exit(65)

def tool(what, *argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        said = done.stdout.decode('utf-8', 'replace').strip().split('\\n')
        if b'no space left on device' in done.stdout.lower():
            refuse('the image does not fit in the disk: give the template a larger one (diskMib)')
        refuse(what + ': ' + said[-1][-800:])

def read(path):
    with open(path, 'rb') as file:
        return file.read()

def write(path, content, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        os.remove(path)
    with open(path, 'wb') as file:
        file.write(content)
    os.chmod(path, mode)

def source(given):
    try:
        with tarfile.open(given, 'r:*') as archive:
            names = {name[2:] if name.startswith('./') else name for name in archive.getnames()}
    except (tarfile.TarError, EOFError, OSError) as error:
        refuse('the archive is no tar file, or is cut short: ' + str(error))
    if 'oci-layout' in names:
        return 'oci-archive:' + given
    if 'manifest.json' in names:
        return 'docker-archive:' + given
    refuse('the archive holds no image: there is neither oci-layout nor manifest.json in it')

def blob(descriptor):
    algorithm, _, digest = descriptor['digest'].partition(':')
    path = '/'.join([LAYOUT, 'blobs', algorithm, digest])
    if os.path.getsize(path) > MAX_JSON:
        refuse('a description in the image is too large')
    return json.loads(read(path))

def described():
    manifest = blob(json.loads(read(LAYOUT + '/index.json'))['manifests'][0])
    layers = manifest['layers']
    if len(layers) > MAX_LAYERS:
        refuse('the image has %d layers: %d are the most' % (len(layers), MAX_LAYERS))
    for layer in layers:
        if '+encrypted' in layer['mediaType']:
            refuse('the image has encrypted layers: their keys are not known here')
    image = blob(manifest['config'])
    machine = '%s/%s' % (image.get('os'), image.get('architecture'))
    if machine != 'linux/amd64':
        refuse('the image is for %s: linux/amd64 is needed' % machine)
    return image.get('config') or {}

def said_by(config):
    env = {}
    for pair in config.get('Env') or []:
        name, _, value = pair.partition('=')
        if re.fullmatch('[A-Za-z_][A-Za-z0-9_]*', name) and '\\0' not in value:
            env[name] = value
    user = (config.get('User') or 'root').split(':')[0] or 'root'
    return {'user': user, 'cwd': config.get('WorkingDir') or '/', 'env': env}

def take_place():
    os.mkdir(OLD)
    for name in os.listdir('/'):
        if name not in STAYS:
            os.rename('/' + name, OLD + '/' + name)
    for name in os.listdir(ROOT):
        if name not in STAYS:
            os.rename(ROOT + '/' + name, '/' + name)

def entries(path):
    try:
        return [line.split(b':') for line in read(path).split(b'\\n') if line.count(b':') >= 2]
    except OSError:
        return []

def add_line(path, line):
    before = read(path) if os.path.isfile(path) else b''
    write(path, before + (b'' if before.endswith(b'\\n') or not before else b'\\n') + line + b'\\n')

def add_user(name, home, wanted):
    users, groups = entries('/etc/passwd'), entries('/etc/group')
    if any(user[0] == name for user in users):
        return
    taken = {entry[2] for entry in users + groups}
    number = next(n for n in range(wanted, wanted + 60000) if b'%d' % n not in taken or n == 0)
    if not any(group[0] == name for group in groups):
        add_line('/etc/group', b'%s:x:%d:' % (name, number))
    add_line('/etc/passwd', b'%s:x:%d:%d::%s:/bin/bash' % (name, number, number, home))

def add_home(path, uid, gid):
    if not os.path.isdir(path):
        os.makedirs(path)
        os.chown(path, uid, gid)

def complete(said, ours, bundle):
    if not os.path.exists('/bin/bash'):
        if not os.path.exists('/bin/sh'):
            refuse('the image has no shell: commands need /bin/bash or /bin/sh')
        os.symlink('sh', '/bin/bash')
    # A point of the disk alone is taken after it.
    if not os.path.exists('/bin/sync'):
        refuse('the image has no /bin/sync, by which its files are written out before a point of its disk')
    add_user(b'root', b'/root', 0)
    add_user(b'user', b'/home/user', 1000)
    user = said['user'].encode()
    if not any(user in (entry[0], entry[2]) for entry in entries('/etc/passwd')):
        refuse('the image runs as "%s", which its /etc/passwd does not have' % said['user'])
    for entry in entries('/etc/passwd'):
        if entry[0] in (b'root', b'user', user) and len(entry) == 7:
            add_home(entry[5] or b'/', int(entry[2]), int(entry[3]))
    for path, content in ours.items():
        write(path, content)
    if not os.path.exists(BUNDLE):
        write(BUNDLE, bundle)
    os.makedirs('/usr/local/share/ca-certificates', exist_ok=True)
    lines = []
    for name, value in said['env'].items():
        unless = '' if name == 'PATH' else '[ -n "\${%s+set}" ] || ' % name
        lines.append("%sexport %s='%s'\\n" % (unless, name, value.replace("'", "'\\\\''")))
    write('/etc/profile.d/space-image.sh', ''.join(lines).encode('utf-8', 'surrogateescape'))

def main(given):
    tool('the image cannot be read', 'skopeo', '--insecure-policy', '--override-os', 'linux', '--override-arch', 'amd64',
         'copy', '--quiet', '--dest-oci-accept-uncompressed-layers', source(given), 'oci:' + LAYOUT + ':image')
    said = said_by(described())
    os.remove(given)
    tool('the image cannot be unpacked', 'umoci', 'raw', 'unpack', '--image', LAYOUT + ':image', ROOT)
    shutil.rmtree(LAYOUT)
    ours, bundle = {path: read(path) for path in OURS}, read(BUNDLE)
    take_place()
    complete(said, ours, bundle)
    os.makedirs('/run/space', exist_ok=True)
    write('/run/space/image.json', json.dumps(said).encode(), 0o600)
    shutil.rmtree(OLD, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    os.sync()

try:
    main(*sys.argv[2:])
except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
    refuse('the image is described in a way that is none: %r' % error)
except OSError as error:
    refuse('the image cannot be put in place: %s' % error)
`;

/** Names the script among the arguments, so that whoever lists processes, or fakes one, knows it. */
export const IMAGE_NAME = 'space-template-image';
export const IMAGE_FOLDER = '/.space-image';
export const IMAGE_RESULT = '/run/space/image.json';
