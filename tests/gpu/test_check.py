"""Tests of the scripts' pure parts: python -m unittest test_check. `cargo xtask` runs them as one of its own tests."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import check
import machine


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Arguments(unittest.TestCase):
    def test_parts_are_sorted_and_named_once(self):
        for given, parts in [(["2", "1", "2"], ["1", "2"]), (["all"], ["1", "2", "3", "4"]), (["4", "all"], ["1", "2", "3", "4"])]:
            self.assertEqual(check.arguments(given).parts, parts)
        self.assertEqual(check.arguments(["1", "--device", "cuda:3", "--minutes", "0.5"]).device, "cuda:3")

    def test_wrong_arguments_are_refused(self):
        for given in [[], ["5"], ["1", "--device", "cuda"], ["1", "--device", "tpu:0"], ["1", "--minutes", "0"], ["1", "--rounds", "0"]]:
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as exit:
                check.arguments(given)
            self.assertEqual(exit.exception.code, 2, given)


class Lines(unittest.TestCase):
    def test_a_figure_is_read_and_other_lines_are_not(self):
        one = {"figure": "decode", "batch": 1, "round": 1, "tokens": 64, "seconds": 0.5}
        self.assertEqual(check.figure_of("test figures ... figure: " + json.dumps(one)), one)
        for line in ["", "figure: {", "figure: 7", 'figure: {"seconds": 0, "tokens": 1}', "no figure here"]:
            self.assertIsNone(check.figure_of(line), line)

    def test_speeds_are_medians_without_the_first_round(self):
        rounds = [(0, 100.0), (1, 1.0), (2, 2.0), (3, 4.0)]
        figures = [{"figure": "train", "batch": 8, "round": number, "tokens": 8, "seconds": seconds} for number, seconds in rounds]
        self.assertEqual(check.speeds(figures), {("train", 8): 4.0})
        self.assertEqual(check.speeds(figures[:1]), {})

    def test_a_test_is_ok_failed_stopped_or_skipped_by_name(self):
        self.assertEqual(check.verdict(0, ["running 1 test", "logits differ", "test result: ok."]), ("ok", ["logits differ"]))
        self.assertEqual(check.verdict(0, ["skipped this: it needs that"])[0], "skipped")
        self.assertEqual(check.verdict(101, ["panicked at"])[0], "failed")
        self.assertEqual(check.verdict(None, [])[0], "stopped")
        self.assertEqual(len(check.verdict(101, [str(number) for number in range(99)])[1]), check.LAST_LINES)


class Headers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name).resolve()
        self.packages = self.root / "lib/python3.12/site-packages"
        self.work = self.root / "work"

    def tearDown(self):
        self.folder.cleanup()

    def chosen(self, environment=None, roots=()):
        return machine.toolkit(environment or {}, [self.packages], self.work, list(roots))

    def test_what_is_named_counts_then_what_is_installed_and_complete(self):
        self.assertIsNone(self.chosen()[0])
        self.assertEqual(self.chosen({"CUDA_PATH": "/named"})[0], "/named")
        cuda = self.root / "cuda"
        write(cuda / "include/cuda_runtime.h")
        self.assertIsNone(self.chosen(roots=[cuda])[0])
        write(cuda / "include/crt/mma.h")
        self.assertEqual(self.chosen(roots=[self.root / "nowhere", cuda])[0], str(cuda))

    def test_the_newest_complete_wheel_is_used(self):
        for number in ("cu12", "cu13", "cu9"):
            for header in machine.HEADERS + ("cccl/nv/target",):
                write(self.packages / "nvidia" / number / "include" / header)
        self.assertEqual(self.chosen()[0], str(self.packages / "nvidia/cu13"))

    def test_headers_of_several_wheels_are_merged(self):
        write(self.packages / "nvidia/cu13/include/cuda_runtime.h", "wheel")
        write(self.packages / "nvidia/cu13/include/cccl/nv/target")
        root, said = self.chosen()
        self.assertIn("still missing: crt/mma.h", said)
        write(self.packages / "triton/backends/nvidia/include/cuda_runtime.h", "triton")
        write(self.packages / "triton/backends/nvidia/include/crt/mma.h")
        root, said = self.chosen()
        self.assertNotIn("missing", said)
        self.assertEqual(machine.lacks(pathlib.Path(root)), [])
        self.assertEqual((pathlib.Path(root) / "include/cuda_runtime.h").read_text(), "wheel")

    def test_the_older_layout_of_wheels_is_merged(self):
        write(self.packages / "nvidia/cuda_runtime/include/cuda_runtime.h")
        write(self.packages / "nvidia/cuda_nvcc/include/crt/mma.h")
        write(self.packages / "nvidia/cuda_cccl/include/nv/target")
        root, said = self.chosen()
        self.assertNotIn("missing", said)
        self.assertTrue((pathlib.Path(root) / "include/cccl/nv/target").is_file())

    def test_libraries_of_wheels_stand_behind_what_the_user_chose(self):
        write(self.packages / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
        given = {"LD_LIBRARY_PATH": "/mine"}
        environment, said = machine.child_environment(given, [self.packages], self.root, [])
        self.assertEqual(environment["LD_LIBRARY_PATH"], f"/mine:{self.packages}/nvidia/cuda_nvrtc/lib")
        self.assertEqual(given, {"LD_LIBRARY_PATH": "/mine"})
        self.assertIsNone(said["headers"])


if __name__ == "__main__":
    unittest.main()
