"""A slow wire between two network interfaces, for kernels without netem: what comes in by the first goes out by the second after so
many milliseconds; the way back is not delayed. `namespaces.sh shape R delay=50ms` puts it between a machine and the bridge.

    delay.py plaudit-v1 plaudit-d1 50
"""

import collections
import select
import socket
import sys
import time

ALL_PROTOCOLS = 0x0003
LARGEST = 1 << 16


def packets(interface):
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    wire.bind((interface, 0))
    wire.setblocking(False)
    return wire


def arrived(wire):
    """Packets that came in; what this program sent out by the same interface is seen there too, and left."""
    while True:
        try:
            packet, (_, _, kind, _, _) = wire.recvfrom(LARGEST)
        except BlockingIOError:
            return
        if kind != socket.PACKET_OUTGOING:
            yield packet


def send(wire, packet):
    try:
        wire.send(packet)
    except (BlockingIOError, OSError):
        pass  # a wire loses what it cannot carry


def main():
    machine, bridge, milliseconds = packets(sys.argv[1]), packets(sys.argv[2]), float(sys.argv[3])
    under_way = collections.deque()
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else 1.0
        ready, _, _ = select.select([machine, bridge], [], [], wait)
        if machine in ready:
            due = time.monotonic() + milliseconds / 1e3
            under_way.extend((due, packet) for packet in arrived(machine))
        if bridge in ready:
            for packet in arrived(bridge):
                send(machine, packet)
        while under_way and under_way[0][0] <= time.monotonic():
            send(bridge, under_way.popleft()[1])


if __name__ == "__main__":
    main()
