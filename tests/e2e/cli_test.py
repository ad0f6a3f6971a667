"""kvstrata, the operator's tool, against a real daemon: what it prints, and its exit codes."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

DAEMON, TOOL = os.environ["KVSTRATAD"], os.environ["KVSTRATA"]


def start_daemon(data, socket, *arguments, log_level="warning"):
    """A daemon that is ready."""
    read_end, write_end = os.pipe()
    daemon = subprocess.Popen(
        [DAEMON, "--data", data, "--socket", socket, "--host-memory", "32MiB", "--disk", "128MiB",
         "--log-level", log_level, "--ready-fd", str(write_end), *arguments],
        pass_fds=[write_end])
    os.close(write_end)
    with os.fdopen(read_end) as ready:
        if ready.read() != "ready\n":
            raise RuntimeError("the daemon did not get ready")
    return daemon


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="kvstrata-cli-")
        cls.directory = pathlib.Path(cls.temporary.name)
        cls.socket = cls.directory / "s"
        cls.start()

    @classmethod
    def start(cls):
        cls.daemon = start_daemon(cls.directory / "data", cls.socket)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.terminate()
        cls.daemon.wait()
        cls.temporary.cleanup()

    def run_tool(self, *arguments, socket=None, given=None):
        return subprocess.run([TOOL, *arguments, "--socket", str(socket or self.socket)],
                              input=given, capture_output=True)

    def ok(self, *arguments, given=None):
        done = self.run_tool(*arguments, given=given)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def namespace_of(self, space):
        for line in self.ok("ls", "--json").splitlines():
            entry = json.loads(line)
            if entry["model"]["fingerprint"] == "space:" + space:
                return str(entry["ns"])
        self.fail(f"ls does not show the space {space}")

    def test_rescan_counts_the_store_anew_and_names_foreign_files(self):
        self.ok("put", "counted", "-", "--durable", given=b"value")
        audit = json.loads(self.ok("verify", "--rescan", "--json"))
        self.assertEqual(audit["wrong_segments"], 0)
        self.assertEqual(audit["blocks_found"], audit["blocks_counted"])
        self.assertGreater(audit["blocks_found"], 0)
        foreign = self.directory / "data" / "segments" / "notes.txt"
        foreign.write_text("not ours")
        try:
            self.assertIn("foreign: notes.txt", self.ok("verify", "--rescan"))
        finally:
            foreign.unlink()
        self.assertEqual(self.run_tool("verify", "--rescan", "--ns", "1").returncode, 2)

    def test_recover_brings_back_what_a_lost_index_left_behind(self):
        data, socket = self.directory / "recovered", self.directory / "r"

        def with_daemon(work):
            daemon = start_daemon(data, socket, log_level="error")
            try:
                return work()
            finally:
                daemon.terminate()
                daemon.wait()

        def recover():
            done = subprocess.run([TOOL, "recover", "--data", data, "--disk", "128MiB", "--json"],
                                  capture_output=True, check=False)
            return done.returncode, done.stdout.decode() or done.stderr.decode()

        value = bytes(range(256)) * 77
        with_daemon(lambda: self.run_tool("put", "key", "-", "--durable", given=value,
                                          socket=socket))
        shutil.rmtree(data / "index")
        code, said = with_daemon(recover)
        self.assertEqual(code, 1)
        self.assertIn("stop kvstratad first", said)
        missing = with_daemon(lambda: self.run_tool("get", "key", "-", socket=socket))
        self.assertEqual(missing.returncode, 4)
        code, said = recover()
        self.assertEqual(code, 0, said)
        self.assertEqual(json.loads(said)["recovered_blocks"], 1)
        got = with_daemon(lambda: self.run_tool("get", "key", "-", socket=socket))
        self.assertEqual(got.stdout, value)
        self.assertEqual(json.loads(recover()[1])["segments"], 0)

    def test_a_value_put_comes_back_also_after_sigkill(self):
        value = bytes(range(256)) * 999 + b"tail"
        self.ok("put", "kept", "-", "--durable", given=value)
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()
        type(self).start()
        done = self.run_tool("get", "kept", "-")
        self.assertEqual(done.stdout, value)

    def test_a_missing_key_is_exit_code_4(self):
        self.assertEqual(self.run_tool("get", "never", "-").returncode, 4)

    def test_another_value_under_a_key_is_refused_and_says_so(self):
        self.ok("put", "once", "-", given=b"first")
        done = self.run_tool("put", "once", "-", given=b"second")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"first stays", done.stderr)
        self.assertEqual(self.run_tool("get", "once", "-").stdout, b"first")

    def test_no_daemon_is_exit_code_3_with_what_to_do(self):
        done = self.run_tool("status", socket=self.directory / "nobody")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"kvstrata serve", done.stderr)

    def test_nonsense_is_exit_code_2(self):
        for words in (["dance"], ["ls", "--limit", "many"], ["clear"], []):
            done = subprocess.run([TOOL, *words], capture_output=True)
            self.assertEqual(done.returncode, 2, words)

    def test_status_names_the_admission_policy_and_an_unknown_one_is_refused(self):
        self.assertIn("every block is written to disk", self.ok("status"))
        data, socket = self.directory / "small", self.directory / "a"
        daemon = start_daemon(data, socket, "--admission", "second-use")
        try:
            status = self.run_tool("status", socket=socket).stdout.decode()
            self.assertIn("0 B in host memory alone (second-use; 0 declined", status)
        finally:
            daemon.terminate()
            daemon.wait()
        refused = subprocess.run([DAEMON, "--data", data, "--admission", "first-use"],
                                 capture_output=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b'"first-use" is not one of "all", "second-use"', refused.stderr)

    def test_status_stats_and_doctor_answer(self):
        self.assertIn("health", self.ok("status"))
        stats = json.loads(self.ok("stats", "--json"))
        for section in ("counters", "gauges", "host", "leases", "store", "server"):
            self.assertIn(section, stats)
        self.assertIn("counters.lookups", self.ok("stats"))
        checks = json.loads(self.ok("doctor", "--json"))
        self.assertIn("answers", next(c["finding"] for c in checks if c["name"] == "daemon"))
        self.assertIn("no errors", next(c["finding"] for c in checks if c["name"] == "disk tier"))

    def test_doctor_tells_of_a_store_in_memory_and_of_a_lost_index(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as data:
            def finding(name):
                checks = json.loads(self.ok("doctor", "--json", "--data", data))
                return next(c for c in checks if c["name"] == name)
            self.assertEqual(finding("file system")["level"], "limited")
            self.assertEqual(finding("lost index")["level"], "ok")
            pathlib.Path(data, "identity").write_text("x")
            aside = pathlib.Path(data, "index.bad-1700000000000")
            aside.mkdir()
            (aside / "CURRENT").write_bytes(b"x" * 10_000)
            self.assertEqual(finding("lost index")["level"], "limited")
            self.assertIn("kvstrata recover", finding("lost index")["remedy"])

    def test_ls_inspect_verify_clear_see_the_same_block(self):
        self.ok("put", "seen", "-", "--durable", "--space", "four", given=b"x" * 5000)
        ns = self.namespace_of("four")
        [block] = [json.loads(line) for line in self.ok("ls", "--ns", ns, "--json").splitlines()]
        self.assertEqual(block["raw_bytes"], 5000)
        details = json.loads(self.ok("inspect", "--ns", ns, block["hash"]))
        self.assertEqual(bytes.fromhex(details["opaque_key"]), b"seen")
        verified = json.loads(self.ok("verify", "--ns", ns, "--json"))
        self.assertEqual((verified["checked"], verified["bad"]), (1, 0))
        self.assertIn("removed 1 blocks", self.ok("clear", "--ns", ns))
        self.assertEqual(self.run_tool("get", "seen", "-", "--space", "four").returncode, 4)

    def test_pinned_blocks_are_kept_and_clear_says_so(self):
        self.ok("put", "pin me", "-", "--durable", "--space", "pins", given=b"p")
        ns = self.namespace_of("pins")
        block = json.loads(self.ok("ls", "--ns", ns, "--json"))
        self.ok("pin", "--ns", ns, block["hash"])
        self.assertEqual(self.run_tool("clear", "--ns", ns).returncode, 5)
        self.ok("unpin", "--ns", ns, block["hash"])
        self.ok("clear", "--ns", ns)

    def test_explain_says_what_misses(self):
        self.ok("put", "e", "-", "--durable", "--space", "why", given=b"e")
        ns = self.namespace_of("why")
        done = self.run_tool("explain", "--ns", ns, "0" * 64)
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"0 of 1 blocks", done.stdout)

    def test_evict_and_flush(self):
        self.ok("put", "evict me", "-", "--durable", given=b"e" * 100)
        self.assertIn("durable up to", self.ok("flush"))
        self.assertIn("removed", self.ok("evict"))
        self.assertEqual(self.run_tool("get", "evict me", "-").stdout, b"e" * 100)

    def test_a_name_in_a_file_gives_the_terminal_no_commands(self):
        header = json.dumps({"a\x1b[31mb\x9bc\x7f": {"dtype": "BF16"}}).encode()
        dump = self.directory / "hostile.safetensors"
        dump.write_bytes(len(header).to_bytes(8, "little") + header)
        done = subprocess.run([TOOL, "codec", "encode", dump, self.directory / "out.kvsc"],
                              capture_output=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"'a?[31mb??c?'", done.stderr)


if __name__ == "__main__":
    outcome = unittest.main(argv=[sys.argv[0], "-v"], exit=False)
    sys.exit(0 if outcome.result.wasSuccessful() else 1)
