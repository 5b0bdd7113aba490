#!/usr/bin/env bash
# Machines on one machine: network namespaces with a bridge between them, each with shared memory and a disk of its own, and an `ssh` that
# enters them. What runs in one sees the others by the network alone, as it would in a lab. Needs root (or CAP_NET_ADMIN and CAP_SYS_ADMIN).
#
#   namespaces.sh up [N]             N machines (2): 10.77.0.1, 10.77.0.2, …; prints the folder with `ssh`, to be put first in PATH
#   namespaces.sh exec R CMD…        runs a command on machine R (0, 1, …)
#   namespaces.sh shape R WHAT…      what machine R sends: `rate=200mbit`, `loss=2` (percent; needs nft), `delay=50ms` (by delay.py; needs
#                                    ethtool and python3); exits with 77 where that is not there. `shape R` alone ends it
#   namespaces.sh clock R +1h        what is started on machine R from now on has another clock (needs libfaketime; 77 without). `clock R` ends it
#   namespaces.sh cut R | join R     takes machine R's link down, or up
#   namespaces.sh fill R | empty R   fills machine R's disk (/mnt/plaudit, 512 MB), or makes room again
#   namespaces.sh pids R             the processes on machine R
#   namespaces.sh down               ends every process in them, and leaves nothing behind
#
# PLAUDIT_NETNS_PATH is the PATH that `ssh` gives to commands (today's PATH); PLAUDIT_NETNS names the set (plaudit), so that two can be up.
set -euo pipefail

set_name=${PLAUDIT_NETNS:-plaudit}
state=/run/$set_name-netns
subnet=${PLAUDIT_NETNS_SUBNET:-10.77.0}
bridge=${set_name:0:11}-br

name() { echo "$set_name-$1"; }
link() { echo "${set_name:0:9}-v$1"; }
holder() { cat "$state/$1/holder"; }

enter() {
  local rank=$1
  shift
  exec nsenter --target "$(holder "$rank")" --net --mount --wd="$PWD" "$@"
}

machine_up() {
  local rank=$1 space
  space=$(name "$rank")
  mkdir -p "$state/$rank"
  ip netns add "$space"
  ip link add "$(link "$rank")" type veth peer name eth0 netns "$space"
  ip link set "$(link "$rank")" master "$bridge" up
  ip -n "$space" addr add "$subnet.$((rank + 1))/24" dev eth0
  ip -n "$space" link set eth0 up
  ip -n "$space" link set lo up
  # One process holds the machine's mounts: without a /dev/shm of its own, shared memory would cross between machines unseen.
  ip netns exec "$space" unshare --mount --propagation private sh -c '
    mount -t tmpfs -o size=2g tmpfs /dev/shm && mount -t tmpfs -o size=512m tmpfs /mnt/plaudit && echo $$ > "$1" && exec sleep infinity
  ' holder "$state/$rank/holder" </dev/null >/dev/null 2>&1 &
  for _ in $(seq 100); do [ -s "$state/$rank/holder" ] && return; sleep 0.05; done
  echo "machine $rank did not come up" >&2
  exit 1
}

write_ssh() {
  mkdir -p "$state/bin"
  cat >"$state/bin/ssh" <<SHIM
#!/usr/bin/env bash
# ssh [options] host command: the command, on the machine with that address, with the environment of a new login.
while [ \$# -gt 0 ]; do
  case \$1 in
    --) shift; break ;;
    -[bcDEeFIiJLlmOopQRSWw]) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=\${1##*@}; shift; [ "\${1:-}" = -- ] && shift
rank=\$(( \${host##*.} - 1 ))
[ "\${host%.*}" = "$subnet" ] && [ -s "$state/\$rank/holder" ] || { echo "ssh: Could not resolve hostname \$host" >&2; exit 255; }
if [ -e "$state/\$rank/cut" ]; then sleep 2; echo "ssh: connect to host \$host port 22: No route to host" >&2; exit 255; fi
exec nsenter --target "\$(cat "$state/\$rank/holder")" --net --mount --wd="\$HOME" \\
  env -i FAKETIME_DONT_FAKE_MONOTONIC=1 HOME="\$HOME" USER="\${USER:-root}" SHELL=/bin/sh PATH="${PLAUDIT_NETNS_PATH:-$PATH}" sh -c "\$*"
SHIM
  chmod +x "$state/bin/ssh"
}

up() {
  local count=${1:-2}
  [ "$(id -u)" = 0 ] || { echo "network namespaces need root" >&2; exit 77; }
  [ ! -e "$state" ] || { echo "$state exists: run \`$0 down\` first" >&2; exit 1; }
  mkdir -p "$state" /mnt/plaudit
  ip link add "$bridge" type bridge && ip link set "$bridge" up
  for rank in $(seq 0 $((count - 1))); do machine_up "$rank"; done
  write_ssh
  echo "$state/bin"
}

down() {
  for folder in "$state"/[0-9]*; do
    [ -d "$folder" ] || continue
    local space
    space=$(name "$(basename "$folder")")
    no_delay "$(basename "$folder")"
    for signal in TERM KILL; do
      for pid in $(ip netns pids "$space" 2>/dev/null); do kill -s "$signal" "$pid" 2>/dev/null || true; done
      sleep 0.2
    done
    ip netns delete "$space" 2>/dev/null || true
  done
  ip link delete "$bridge" 2>/dev/null || true
  rm -rf "$state"
}

# Takes a machine's link out of the bridge, and puts a program there that hands packets on later.
delay() {
  local rank=$1 near far
  near=$(link "$rank") far=${set_name:0:9}-d$rank
  command -v ethtool >/dev/null && command -v python3 >/dev/null || exit 77
  ip link set "$near" nomaster
  ip link add "$far" type veth peer name "${far}b"
  ip link set "${far}b" master "$bridge" up
  ip link set "$far" up
  # Packets as they are on a wire: not yet to be split, checksums filled in.
  for interface in "$near" "$far" "${far}b"; do ethtool -K "$interface" tso off gso off gro off tx off >/dev/null; done
  ip netns exec "$(name "$rank")" ethtool -K eth0 tso off gso off gro off tx off >/dev/null
  for other in "$state"/[0-9]*; do ip netns exec "$(name "$(basename "$other")")" ethtool -K eth0 tso off gso off tx off >/dev/null; done
  setsid python3 "$(dirname "$0")/delay.py" "$near" "$far" "${2%ms}" </dev/null >/dev/null 2>&1 &
  echo $! >"$state/$rank/delay"
}

no_delay() {
  local rank=$1
  [ -s "$state/$rank/delay" ] || return 0
  kill "$(cat "$state/$rank/delay")" 2>/dev/null || true
  rm "$state/$rank/delay"
  ip link delete "${set_name:0:9}-d$rank"
  ip link set "$(link "$rank")" master "$bridge"
}

# Every program of that machine gets the library, whatever its parents leave of the environment: through a /etc of the machine's own.
clock() {
  local rank=$1 library
  [ ! -e "$state/$rank/clock" ] || nsenter --target "$(holder "$rank")" --mount umount /etc
  rm -f "$state/$rank/clock"
  [ $# -gt 1 ] || return 0
  library=$(find /usr/lib /usr/local/lib -name libfaketimeMT.so.1 2>/dev/null | head -1)
  [ -n "$library" ] || exit 77
  nsenter --target "$(holder "$rank")" --mount sh -c '
    mkdir -p /mnt/plaudit/.etc /mnt/plaudit/.etc-work &&
      mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/plaudit/.etc,workdir=/mnt/plaudit/.etc-work /etc &&
      echo "$1" >/etc/faketimerc && echo "$2" >/etc/ld.so.preload
  ' clock "$2" "$library" || exit 77
  touch "$state/$rank/clock"
}

shape() {
  local rank=$1 space what
  space=$(name "$rank")
  shift
  ip netns exec "$space" tc qdisc delete dev eth0 root 2>/dev/null || true
  if command -v nft >/dev/null; then ip netns exec "$space" nft delete table netdev loss 2>/dev/null || true; fi
  no_delay "$rank"
  for what in "$@"; do
    case $what in
      rate=*) ip netns exec "$space" tc qdisc add dev eth0 root tbf rate "${what#*=}" burst 256k latency 400ms ;;
      delay=*ms) delay "$rank" "${what#*=}" ;;
      loss=*)
        ip netns exec "$space" nft -f - <<NFT || exit 77
table netdev loss {
  chain out {
    type filter hook egress device eth0 priority 0;
    numgen random mod 100 < ${what#*=} drop
  }
}
NFT
        ;;
      *) echo "shape: \`$what\` is none of rate=, loss=, delay=" >&2; exit 2 ;;
    esac
  done
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
  up) up "$@" ;;
  down) down ;;
  exec) enter "$@" ;;
  pids) ip netns pids "$(name "$1")" | grep -v "^$(holder "$1")$" || true ;;
  cut) touch "$state/$1/cut"; ip link set "$(link "$1")" down ;;
  join) rm -f "$state/$1/cut"; ip link set "$(link "$1")" up ;;
  shape) shape "$@" ;;
  clock) clock "$@" ;;
  fill) enter "$1" sh -c 'cat /dev/zero >/mnt/plaudit/.filler 2>/dev/null || true' ;;
  empty) enter "$1" rm -f /mnt/plaudit/.filler ;;
  *) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
