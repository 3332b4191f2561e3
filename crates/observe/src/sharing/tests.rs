// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Read;
use std::process::{Command, Stdio};

use super::*;

#[test]
fn of_a_worker_the_parent_is_meant_and_a_program_of_its_own_is_no_worker() {
    // A subshell runs on as it was forked, until its input ends; sleep does not.
    let script = "exec 3<&0; (echo; read -r _ <&3; :) & sleep 5 >&- & wait";
    let mut shell = Command::new("bash")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = shell.stdin.take();
    shell.stdout.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
    // What will be sleep was forked as well, and is the shell until its exec.
    let begin = || Sharing::begin(&Wanted::Pid(shell.id())).unwrap();
    let mut tries = 500;
    let mut sharing = loop {
        let sharing = begin();
        tries -= 1;
        if tries == 0 || sharing.figures().forked().count() == 1 {
            break sharing;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let figures = sharing.figures();
    let workers: Vec<_> = figures.forked().collect();
    assert_eq!((figures.pid, workers.len()), (shell.id().cast_signed(), 1), "{figures:?}");
    let worker = workers[0].pid.cast_unsigned();
    assert_eq!(workers[0].slot, Some(0));
    assert!(workers[0].own_bytes > 0 && workers[0].shared_bytes > Some(0), "{figures:?}");
    assert!(workers[0].copied_bytes.unwrap() <= workers[0].own_bytes);
    let of_worker = Sharing::begin(&Wanted::Pid(worker)).unwrap();
    assert_eq!(of_worker.parent().pid(), figures.pid);
    // Both come to wait, and then nothing changes.
    for _ in 0..500 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        if !sharing.may_have_changed() {
            break;
        }
        sharing.look().unwrap();
    }
    assert!(!sharing.may_have_changed());
    // What they wrote until then is erosion, rightly: only who looks from now on sees none.
    let mut settled = begin();
    settled.repeat();
    assert_eq!(settled.figures().forked().next().unwrap().erosion_bytes_per_s, Some(0.0));
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert!(sharing.may_have_changed());
    assert!(matches!(sharing.look(), Err(ProcessError::Vanished { .. })));
    // The worker lives on without its parent.
    let left = Sharing::begin(&Wanted::Pid(worker)).unwrap();
    assert_eq!(left.figures().forked().count(), 0);
    drop(input);
}
