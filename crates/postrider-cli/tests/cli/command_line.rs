//! Help, suggestions, colours and pipes.

use std::io::pipe;

use crate::program::Program;

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["--help"][..], &["--version"], &["config", "show", "--help"], &["help", "relay"]] {
        let ran = Program::new().run(args);
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(!ran.stdout.is_empty());
    }
}

#[test]
fn a_mistyped_command_or_flag_is_reported_with_the_nearest_name() {
    for (args, nearest) in
        [(&["rellay"][..], "'relay'"), (&["config", "chekc"], "'check'"), (&["status", "--jsn"], "'--json'")]
    {
        let ran = Program::new().run(args);
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.contains(nearest), "{}", ran.stderr);
    }
}

#[test]
fn without_a_command_help_is_shown_as_an_error() {
    let ran = Program::new().run(&[]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("Examples:"), "{}", ran.stderr);
}

#[test]
fn a_closed_pipe_exits_silently_with_its_own_code() {
    for args in [&["config", "show"][..], &["config", "schema"], &["--help"], &["completions", "bash"]] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let program = Program::new();
        let output = program.command(args).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_behind_standard_output_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Program::new().command(&["config", "schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error[PR-0610]"), "{output:?}");
}

#[test]
fn colours_are_used_on_terminals_or_on_request() {
    let escape = "\u{1b}[";
    let program = Program::with_config("[relay]\nlog = 5\n");
    assert!(!program.run(&["config", "show"]).stderr.contains(escape));
    assert!(program.run(&["config", "show", "--color", "always"]).stderr.contains(escape));
    assert!(program.run(&["--color=always", "confg"]).stderr.contains(escape));
    assert!(!program.run(&["--color=never", "confg"]).stderr.contains(escape));
    assert!(Program::new().run(&["config", "show", "--color", "always"]).stdout.contains(escape));
}

#[test]
fn completions_contain_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = Program::new().run(&["completions", shell]);
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""));
        assert!(ran.stdout.contains("migrate") && ran.stdout.contains("origin"), "{shell}");
    }
}
