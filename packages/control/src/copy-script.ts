/**
 * What a copy step does in the sandbox of a build, as root: unpacks an archive into a folder of its own, and puts what the pattern
 * finds in it where it is to go. As Dockerfiles have it, of a directory its content is copied, and a file becomes the target, or goes
 * into it when that ends with a slash, is a directory, or several things are copied.
 *
 * It needs bash, tar and coreutils. The archive is read nowhere else than there. Arguments: archive, pattern, target, owner, mode;
 * the last two may be empty.
 */
export const COPY_SCRIPT = `
set -eu
shopt -s nullglob dotglob globstar
archive=$1 pattern=$2 target=$3 owner=$4 mode=$5
folder=$(mktemp -d /var/tmp/copy.XXXXXX)
trap 'rm -rf -- "$folder" "$archive"' EXIT
mkdir "$folder/in" "$folder/out"
tar --extract --no-same-owner --file "$archive" --directory "$folder/in"
cd "$folder/in"
while [ "\${pattern#./}" != "$pattern" ]; do pattern=\${pattern#./}; done
pattern=\${pattern%/}
if [ "$pattern" = . ] || [ -z "$pattern" ]; then
  found=(.)
elif [ -e "$pattern" ] || [ -L "$pattern" ]; then
  found=("$pattern")
else
  IFS=
  found=()
  for one in $pattern; do
    if [ -e "$one" ] || [ -L "$one" ]; then found+=("$one"); fi
  done
fi
if [ \${#found[@]} -eq 0 ]; then
  echo "no files found for '$pattern'" >&2
  exit 66
fi
into=no
case $target in */) into=yes ;; esac
if [ \${#found[@]} -gt 1 ] || [ -d "$target" ]; then into=yes; fi
for one in "\${found[@]}"; do
  if [ -d "$one" ] && [ ! -L "$one" ]; then
    into=yes
    cp -a -- "$one/." "$folder/out/"
  else
    cp -a -- "$one" "$folder/out/"
  fi
done
if [ -n "$mode" ]; then chmod -R -- "$mode" "$folder/out"; fi
if [ -n "$owner" ]; then chown -R -h -- "$owner" "$folder/out"; fi
# The first directory that is not there yet, so that all that is made belongs to the owner.
missing=
place=$target
if [ $into = no ]; then place=$(dirname -- "$target"); fi
while [ ! -d "$place" ]; do missing=$place; place=$(dirname -- "$place"); done
if [ $into = yes ]; then
  mkdir -p -- "$target"
  if [ -n "$missing" ] && [ -n "$owner" ]; then chown -R -h -- "$owner" "$missing"; fi
  # Of the folder itself nothing is taken along.
  cd "$folder/out"
  for one in *; do cp -a --remove-destination -- "$one" "$target/" 2>/dev/null || cp -a -- "$one" "$target/"; done
else
  mkdir -p -- "$(dirname -- "$target")"
  if [ -n "$missing" ] && [ -n "$owner" ]; then chown -R -h -- "$owner" "$missing"; fi
  cp -a --remove-destination -T -- "$folder/out/\${found[0]##*/}" "$target"
fi
`;

/** Names the script among the arguments, so that whoever lists processes, or fakes one, knows it. */
export const COPY_NAME = 'space-template-copy';
