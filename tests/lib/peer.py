#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A bad server: peer.py WAY. Prints its port, and `asked` on standard error at each connection. WAY is what it does to who asks it:
flood (bytes without end), drip (a byte now and then), later (one good answer, then a drip),
close (closes after a while), silent (accepts and says nothing), full (nobody accepts)."""

import socket
import sys
import threading
import time

way = sys.argv[1]
listener = socket.create_server(("127.0.0.1", 0), backlog=0 if way == "full" else 128)
port = listener.getsockname()[1]
if way == "full":
    kept = []
    for _ in range(3):
        kept.append(socket.socket())
        kept[-1].setblocking(False)
        kept[-1].connect_ex(("127.0.0.1", port))
print(port, flush=True)


def serve(client):
    try:
        asked = 0
        print("asked", file=sys.stderr, flush=True)
        while client.recv(64):
            asked += 1
            if way == "later" and asked == 1:
                client.sendall(b"+PONG\r\n")
            elif way != "silent":
                break
        if way == "close":
            time.sleep(0.7)
            client.close()
        while True:
            client.sendall(b"x" * (1 << 20 if way == "flood" else 1))
            if way != "flood":
                time.sleep(0.1)
    except OSError:
        pass


while way == "full":
    time.sleep(60)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
