import os
import signal
import subprocess
import sys

import pytest

from checkpoints import process_identity_and_liveness

SLEEPER = [sys.executable, "-S", "-c", "import sys; print('up', flush=True); sys.stdin.read()"]


@pytest.fixture
def sleeper() -> "subprocess.Popen[str]":
    child = subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return child


def end(child: "subprocess.Popen[str]") -> None:
    child.kill()
    child.communicate()


def test_process_identity_of_this_process() -> None:
    here = process_identity_and_liveness.get_identity_of_this_process()

    assert (here.pid, here.started) == (os.getpid(), process_identity_and_liveness.find_process_start_time(os.getpid()))
    assert here.host_identity != ""


def test_living_process_is_not_known_dead(sleeper: "subprocess.Popen[str]") -> None:
    here, started = (
        process_identity_and_liveness.get_identity_of_this_process(),
        process_identity_and_liveness.find_process_start_time(sleeper.pid),
    )
    assert started is not None

    assert process_identity_and_liveness.is_process_known_dead(here.host_identity, sleeper.pid, started) is False
    end(sleeper)


def test_stopped_process_is_not_known_dead(sleeper: "subprocess.Popen[str]") -> None:
    here, started = (
        process_identity_and_liveness.get_identity_of_this_process(),
        process_identity_and_liveness.find_process_start_time(sleeper.pid),
    )
    assert started is not None
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)

    assert process_identity_and_liveness.is_process_known_dead(here.host_identity, sleeper.pid, started) is False
    end(sleeper)


def test_killed_process_is_known_dead(sleeper: "subprocess.Popen[str]") -> None:
    here, started = (
        process_identity_and_liveness.get_identity_of_this_process(),
        process_identity_and_liveness.find_process_start_time(sleeper.pid),
    )
    assert started is not None
    end(sleeper)

    assert process_identity_and_liveness.is_process_known_dead(here.host_identity, sleeper.pid, started) is True


def test_zombie_is_known_dead(sleeper: "subprocess.Popen[str]") -> None:
    here, started = (
        process_identity_and_liveness.get_identity_of_this_process(),
        process_identity_and_liveness.find_process_start_time(sleeper.pid),
    )
    assert started is not None
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # it has ended and nobody has taken note

    assert process_identity_and_liveness.is_process_known_dead(here.host_identity, sleeper.pid, started) is True
    sleeper.communicate()


def test_other_process_with_the_same_number_is_known_dead() -> None:
    here = process_identity_and_liveness.get_identity_of_this_process()

    assert (
        process_identity_and_liveness.is_process_known_dead(here.host_identity, here.pid, str(int(here.started) + 1))
        is True
    )


@pytest.mark.parametrize("identity", ["", "other-host/boot/pid:[1]"])
def test_process_of_another_host_is_never_known_dead(identity: str) -> None:
    assert process_identity_and_liveness.is_process_known_dead(identity, 2**22 + 1, "1") is False


def test_process_without_a_start_time_is_never_known_dead() -> None:
    assert (
        process_identity_and_liveness.is_process_known_dead(
            process_identity_and_liveness.get_identity_of_this_process().host_identity, 2**22 + 1, ""
        )
        is False
    )
