#!/usr/bin/env python3
"""Inside the VM: poll the control disk until the host writes "GO <epoch>" on it, then set the clock.

The saved state is taken while this waits; the resumed VM finds the host's word at the next look.
"""

import mmap
import os
import time

page = mmap.mmap(-1, 4096)  # O_DIRECT wants an aligned buffer
looks = 0
while True:
    disk = os.open("/dev/vdb", os.O_RDONLY | os.O_DIRECT)
    os.preadv(disk, [page], 0)
    os.close(disk)
    words = page[:64].split()
    if words and words[0] == b"GO":
        break
    if looks == 10:  # everything that this loop needs is in memory by now
        with open("/dev/console", "w", encoding="ascii") as console:
            console.write("VM-WAITING\n")
    looks += 1
    time.sleep(0.05)
time.clock_settime(time.CLOCK_REALTIME, int(words[1]))
