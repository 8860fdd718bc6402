//! What a launched program gets, and how its end is told. Each test runs real programs; those that look
//! at convoy's own inherited state start this test program again, because that state is set before `main`.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

use convoy_capture::{ErrorKind, Options, Recorder, Recording, Scheduler};
use convoy_profile::{Exit, Profile};

fn words(command: &[&str]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}

fn run(command: &[&str]) -> Recording {
    Recorder::new(Options::default())
        .unwrap()
        .launch(&words(command))
        .unwrap()
        .wait()
}

fn launch_error(command: &[&str]) -> ErrorKind {
    Recorder::new(Options::default())
        .unwrap()
        .launch(&words(command))
        .unwrap_err()
        .kind()
}

#[test]
fn exit_is_told_as_it_was() {
    assert_eq!(run(&["true"]).exit, Exit::Status(0));
    assert_eq!(run(&["/bin/false"]).exit, Exit::Status(1));
    assert_eq!(run(&["sh", "-c", "exit 77"]).exit, Exit::Status(77));
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).exit, Exit::Signal(9));
    assert_eq!(run(&["sh", "-c", "kill -SEGV $$"]).exit, Exit::Signal(11));
}

#[test]
fn what_cannot_run_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let mode = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    assert_eq!(
        launch_error(&["no-such-command-anywhere"]),
        ErrorKind::NotFound
    );
    assert_eq!(
        launch_error(&[dir.path().to_str().unwrap()]),
        ErrorKind::NotExecutable
    );
    mode(0o644);
    assert_eq!(
        launch_error(&[script.to_str().unwrap()]),
        ErrorKind::NotExecutable
    );
    mode(0o755);
    assert_eq!(
        launch_error(&[script.to_str().unwrap()]),
        ErrorKind::NotFound
    );
    assert_eq!(launch_error(&[]), ErrorKind::NotFound);
}

#[test]
fn static_program_runs_unrecorded_without_scheduler_events() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("t.c");
    std::fs::write(&source, "int main(void) { return 5; }\n").unwrap();
    let exe = dir.path().join("static");
    let built = Command::new("cc")
        .args(["-static", "-o"])
        .arg(&exe)
        .arg(&source)
        .status()
        .unwrap();
    assert!(built.success());
    let command = [exe.to_str().unwrap()];
    let options = Options {
        scheduler: Scheduler::Off,
        ..Options::default()
    };
    let mut running = Recorder::new(options)
        .unwrap()
        .launch(&words(&command))
        .unwrap();
    let told = running.take_warnings();
    assert!(
        told.iter()
            .any(|w| w.found.contains("statically") && w.effect.contains("unrecorded")),
        "{told:?}"
    );
    let recording = running.wait();
    assert_eq!(recording.exit, Exit::Status(5));
    assert!(recording.profile.processes.is_empty());
    assert!(
        !recording.profile.meta.collectors[0].active,
        "the profile says that the agent saw nothing"
    );
    assert_eq!(recording.warnings, [], "said once");
}

#[test]
fn text_without_interpreter_line_is_run_by_the_shell() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "test \"$1 $2\" = 'a b c' && exit 9\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(
        run(&[script.to_str().unwrap(), "a b", "c"]).exit,
        Exit::Status(9)
    );
}

#[test]
fn session_goes_away_with_the_recording() {
    let recorder = Recorder::new(Options::default()).unwrap();
    let dir = recorder.session_dir().to_owned();
    let recording = recorder.launch(&words(&["true"])).unwrap().wait();
    assert!(dir.exists());
    drop(recording);
    assert!(!dir.exists());
}

#[test]
fn failed_save_keeps_the_data() {
    let mut recording = run(&["true"]);
    let error = recording.save(Path::new("/dev/full")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Write);
    drop(recording);
    let text = error.to_string();
    let kept = text
        .split_whitespace()
        .map(|word| Path::new(word.trim_end_matches([',', ';', ':', ')'])))
        .find(|path| path.extension().is_some_and(|x| x == "convoy"))
        .unwrap_or_else(|| panic!("no file is named: {text}"));
    let (profile, warnings) = Profile::read(&std::fs::read(kept).unwrap()).unwrap();
    std::fs::remove_file(kept).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(profile.meta.command, ["true"]);
}

/// How a fresh process is prepared before it starts.
type Prepare = fn() -> std::io::Result<()>;

fn output(mut command: Command, prepare: Prepare) -> String {
    // SAFETY: the functions given here only make async-signal-safe calls.
    unsafe { command.pre_exec(prepare) };
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert_eq!(output.status.signal(), None);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the test `inner` of this file in a fresh process; what was printed between the marks.
fn in_fresh_process(inner: &str, prepare: Prepare) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        inner,
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let all = output(command, prepare);
    let marked = all
        .split_once("<<")
        .and_then(|(_, rest)| rest.split_once(">>"));
    marked
        .unwrap_or_else(|| panic!("no marks in {all}"))
        .0
        .to_owned()
}

/// What a program sees of what it was given.
const SHOW: &str = "printf '<<'; sed -n '/^Sig[BI]/p' /proc/self/status; ls /proc/self/fd; \
     env | sed '/^LD_PRELOAD=/d; /^_CONVOY_SESSION=/d; /^ASAN_OPTIONS=/d'; printf '>>'";

#[test]
#[ignore = "a part of program_gets_what_it_gets_without_convoy"]
fn show_recorded() {
    assert_eq!(run(&["sh", "-c", SHOW]).exit, Exit::Status(0));
}

fn assert_same_as_bare(prepare: Prepare) {
    let mut bare = Command::new("sh");
    bare.args(["-c", SHOW]);
    let bare = output(bare, prepare);
    let bare = bare
        .strip_prefix("<<")
        .and_then(|b| b.strip_suffix(">>"))
        .unwrap();
    let recorded = in_fresh_process("show_recorded", prepare);
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&recorded), lines(bare));
}

#[test]
fn program_gets_what_it_gets_without_convoy() {
    assert_same_as_bare(|| Ok(()));
}

#[test]
fn ignored_and_blocked_signals_stay_so() {
    assert_same_as_bare(|| {
        // SAFETY: async-signal-safe calls on live locals.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::signal(libc::SIGINT, libc::SIG_IGN);
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGUSR2);
            libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        }
        Ok(())
    });
}

#[test]
fn closed_descriptors_stay_closed() {
    assert_same_as_bare(|| {
        // SAFETY: async-signal-safe.
        unsafe { libc::close(0) };
        Ok(())
    });
    assert_same_as_bare(|| {
        // SAFETY: async-signal-safe.
        unsafe { libc::close(2) };
        Ok(())
    });
}

#[test]
#[ignore = "a part of signal_to_convoy_reaches_the_program"]
fn signal_recorded() {
    let running = Recorder::new(Options::default())
        .unwrap()
        .launch(&words(&[
            "sh",
            "-c",
            "trap 'exit 42' TERM; while :; do sleep 0.05; done",
        ]))
        .unwrap();
    // the program is sent nothing directly: only this process is
    let own = std::process::id().to_string();
    let mut sender = Command::new("sh")
        .args(["-c", "sleep 0.5; kill -TERM $0", &own])
        .spawn()
        .unwrap();
    let exit = running.wait().exit;
    sender.wait().unwrap();
    println!("<<{exit:?}>>");
}

#[test]
fn signal_to_convoy_reaches_the_program() {
    assert_eq!(in_fresh_process("signal_recorded", || Ok(())), "Status(42)");
}
