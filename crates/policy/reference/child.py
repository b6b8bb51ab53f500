"""The program under test as a child process. A thread writes request lines ahead of
the responses, responses come back in order, and a missing response is an error.
"""

import os
import queue
import select
import subprocess
import threading

SILENCE = 60.0  # seconds without a response


class ChildError(Exception):
    """The program died, hung or broke the protocol."""


class Child:
    def __init__(self, program):
        try:
            self.process = subprocess.Popen([program], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, bufsize=0)
        except OSError as fault:
            raise ChildError(f"cannot start {program}: {fault}") from None
        self.out = self.process.stdout.fileno()
        self.partial = bytearray()
        self.lines = []
        self.requests = queue.Queue()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self):
        while True:
            data = self.requests.get()
            try:
                view = memoryview(data)
                while view:
                    view = view[self.process.stdin.write(view):]
            except (OSError, ValueError):
                return  # the reader notices that the program is gone

    def send(self, text):
        self.requests.put(text.encode("utf-8"))

    def receive(self):
        """Return the next response line."""
        while not self.lines:
            ready, _, _ = select.select([self.out], [], [], SILENCE)
            if not ready:
                raise ChildError(f"the program gave no answer for {SILENCE:.0f} s")
            data = os.read(self.out, 1 << 20)
            if not data:
                code = self.process.wait()
                raise ChildError(f"the program ended (exit code {code}) before it had answered")
            self.partial += data
            *whole, rest = self.partial.split(b"\n")
            self.partial = bytearray(rest)
            self.lines = [bytes(line) for line in reversed(whole)]
        try:
            return self.lines.pop().decode("utf-8")
        except UnicodeDecodeError:
            raise ChildError("an answer is not UTF-8") from None

    def ask(self, text):
        self.send(text)
        return self.receive()

    def close(self):
        self.process.kill()
        self.process.wait()
