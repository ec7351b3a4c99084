"""No two processes and no two threads ever share a stream of random bits.

The words of all streams are thrown together and must be distinct. For n words of 64 bits that fails by chance with
probability below n²/2⁶⁵, here less than 10⁻¹⁰; a shared stream repeats words at once.
"""

import ctypes
import itertools
import multiprocessing
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import hush
from hush.noise import bits as bits_module
from hush.noise import uniform_integer
from hush.noise.bits import SystemBits, system_bits

WORDS = 40
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def sample():
    """Draw both ways: one by one, from the buffer, and as an array."""
    source = system_bits()
    return [source.word() for _ in range(WORDS)] + source.words(WORDS).tolist()


def in_child(work, fork=None):
    """Fork, run ``work`` in the child, and return the integers it returned."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads: the case under test
        child = (fork or os.fork)()
    if child == 0:
        status = 1
        try:
            os.write(write, np.array(work(), dtype=np.uint64).tobytes())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return np.frombuffer(data, dtype=np.uint64).tolist()


def distinct(*samples):
    words = list(itertools.chain(*samples))
    return len(words) == len(set(words)) >= 2 * WORDS


@needs_fork
def test_children_and_parent():
    before = sample()
    children = [in_child(sample) for _ in range(4)]
    assert distinct(before, *children, sample())


@needs_fork
def test_grandchildren():
    before = sample()

    def work():
        own = sample()
        return own + in_child(sample) + sample()

    assert distinct(before, in_child(work), sample())


@needs_fork
def test_a_fork_that_python_does_not_see():
    """A C library may fork without the interpreter's hooks; the process id still differs."""
    before = sample()
    assert distinct(before, in_child(sample, fork=ctypes.PyDLL(None).fork), sample())


def test_a_child_without_entropy_draws_nothing(monkeypatch):
    """However often it is asked: the parent's words are never drawn instead."""
    source = SystemBits()
    source.word()
    monkeypatch.setattr(bits_module, "_generation", bits_module._generation + 1)  # as in a child

    def fails(_size):
        raise OSError("no entropy")

    with monkeypatch.context() as starved:
        starved.setattr(os, "urandom", fails)
        for draw in (source.word, source.word, lambda: source.words(1)):
            with pytest.raises(OSError, match="no entropy"):
                draw()
    source.word()


@needs_fork
def test_a_fork_with_an_unchanged_process_id(monkeypatch):
    """Process ids repeat, across namespaces at least; the generation still differs."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    before = sample()
    assert distinct(before, in_child(sample), sample())


@needs_fork
def test_a_fork_inside_a_thread():
    results = []

    def work():
        results.append(sample())
        results.append(in_child(sample))
        results.append(sample())

    main = sample()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(results) == 3
    assert distinct(main, *results, sample())


def test_threads():
    results = []
    start = threading.Barrier(8)

    def work():
        start.wait()
        for _ in range(20):
            results.append(sample())  # noqa: PERF401 - the draws of the threads shall interleave

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    assert distinct(*results)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_pools_of_processes(method):
    before = uniform_integer(2**64, 50)
    context = multiprocessing.get_context(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with context.Pool(3) as pool:
            parts = pool.starmap(uniform_integer, [(2**64, 50)] * 12, chunksize=1)
    assert distinct(before.tolist(), *(part.tolist() for part in parts))


def test_a_stream_never_repeats_across_requests_and_reseeds(monkeypatch):
    monkeypatch.setattr(bits_module, "RESEED_WORDS", 1000)
    source = SystemBits()
    parts = [source.words(count).tolist() for count in (1, 2, 3, 1000, 1, 40_000, 5, 999, 1, 1, 33_000)]
    parts += [[source.word() for _ in range(2000)]]
    assert distinct(*parts)


def test_fresh_entropy_enters_after_the_limit(monkeypatch):
    calls = []
    real = os.urandom

    def counting(size):
        calls.append(size)
        return real(size)

    monkeypatch.setattr(bits_module, "RESEED_WORDS", 1000)
    monkeypatch.setattr(os, "urandom", counting)
    source = SystemBits()
    for _ in range(30):
        source.words(100)
    assert calls == [32] * 4  # the first key, and after each thousand words


def test_the_key_is_erased_after_each_request(monkeypatch):
    keys = []
    start = SystemBits._start
    monkeypatch.setattr(SystemBits, "_start", lambda self, key: (keys.append(key), start(self, key))[1])
    source = SystemBits()
    output = b"".join(source.words(4).tobytes() for _ in range(50))
    assert len(set(keys)) == len(keys) == 51
    assert all(len(key) == 32 and key not in output for key in keys)


def test_nothing_can_seed_or_replace_the_source():
    assert not [name for name in dir(SystemBits) if "seed" in name.lower()]
    assert system_bits() is system_bits()
    with pytest.raises(TypeError):
        system_bits(1)
    sources = Path(hush.__file__).parent.rglob("*.py")
    assert not [path for path in sources if "PredictableBits" in path.read_text("utf-8")]


def test_words_of_any_count():
    for count in (0, 1, 2**15, 2**15 + 1, 10**5):
        words = system_bits().words(count)
        assert words.shape == (count,)
        assert words.dtype == np.uint64
