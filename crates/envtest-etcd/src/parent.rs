//! Waiting for the end of the parent process.

use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// Interval of looking at the parent where the system has no pidfd, or forbids it (old container runtimes).
const LOOK: Duration = Duration::from_millis(100);

/// Process that started this one, if it can be waited for: the first process of the system has no end to wait for, and
/// one that is outside of this PID namespace cannot be seen.
pub(crate) fn parent() -> Option<Pid> {
    getppid().filter(|parent| *parent != Pid::INIT)
}

/// Waits until `parent` has ended. `PR_SET_PDEATHSIG` would tell of the end of the *thread* that started this process,
/// and Go ends threads.
pub(crate) fn wait_for_end(parent: Pid) {
    if let Ok(process) = pidfd_open(parent, PidfdFlags::empty()) {
        // The number could be another process's by now.
        while getppid() == Some(parent) {
            let mut wait = [PollFd::new(&process, PollFlags::IN)];
            if poll(&mut wait, None).is_err_and(|error| error != Errno::INTR) {
                break;
            }
        }
    }
    while getppid() == Some(parent) {
        thread::sleep(LOOK);
    }
}
