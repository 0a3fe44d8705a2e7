//! Runs of programs that stand in for Git, and of Git itself in a hostile repository.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

const SHORT: Duration = Duration::from_millis(200);

/// A folder with a script called `git`, and its environment.
fn stand_in(script: &str) -> (TempDir, GitEnvironment) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("bin/git");
    fs::create_dir_all(folder.path().join("bin")).unwrap();
    fs::create_dir(folder.path().join("project")).unwrap();
    write_script(&program, script);
    let path = vec![folder.path().join("bin"), "/usr/bin".into(), "/bin".into()];
    (folder, GitEnvironment { programs: vec![program], path, variables: Vec::new() })
}

fn write_script(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn query(script: &str, time_limit: Duration) -> Result<GitOutput, GitError> {
    let (folder, environment) = stand_in(script);
    let mut git = GitRunner::find(&folder.path().join("project"), &environment).unwrap();
    git.deadline = Instant::now() + time_limit;
    git.query(&["x"], b"input\n".to_vec())
}

#[test]
fn query_returns_code_and_both_streams() {
    let output = query("cat; echo one >&2; echo ' two' >&2; exit 3", TIME_LIMIT).unwrap();
    assert_eq!((output.code, &*output.text()), (Some(3), "input\n"));
    assert_eq!(output.errors, "one | two");
    assert!(!output.is_success());
}

#[test]
fn query_ends_at_the_limits_of_time_and_output() {
    let timed_out = |script| matches!(query(script, SHORT), Err(GitError::TimedOut));
    assert!(timed_out("exec sleep 1000"));
    // The output ends, but not the process.
    assert!(timed_out("exec >&- 2>&-; exec sleep 1000"));
    let endless = query("exec cat /dev/zero", TIME_LIMIT);
    assert!(matches!(endless, Err(GitError::TooMuchOutput)), "{endless:?}");
    let long = query("head -c 100000 /dev/zero | tr '\\0' x >&2", TIME_LIMIT).unwrap();
    assert!(long.errors.chars().count() <= 201);
}

#[test]
fn query_reads_while_git_writes() {
    // More than pipes hold, in both directions.
    let (folder, environment) = stand_in("exec cat");
    let git = GitRunner::find(&folder.path().join("project"), &environment).unwrap();
    let input = vec![b'x'; 4 << 20];
    assert_eq!(git.query(&[], input.clone()).unwrap().stdout, input);
}

#[test]
fn git_gets_only_the_listed_variables() {
    let (folder, mut environment) = stand_in("env");
    environment.variables = vec![("HOME".to_owned(), "/home/x".to_owned())];
    let git = GitRunner::find(&folder.path().join("project"), &environment).unwrap();
    let text = git.query(&[], Vec::new()).unwrap().text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    // Shells set these themselves.
    names.retain(|name| !matches!(*name, "PWD" | "_" | "SHLVL" | "OLDPWD"));
    names.sort_unstable();
    let expected = [
        "GIT_ALLOW_PROTOCOL",
        "GIT_NO_LAZY_FETCH",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "LC_ALL",
        "PATH",
    ];
    assert_eq!(names, expected, "{text}");
}

#[test]
fn git_inside_the_repository_is_not_started() {
    let (folder, environment) = stand_in("true");
    let project = folder.path().join("project/deep");
    fs::create_dir_all(&project).unwrap();
    assert!(GitRunner::find(&project, &environment).is_some());
    // The program is now part of the repository.
    fs::create_dir(folder.path().join(".git")).unwrap();
    assert!(GitRunner::find(&project, &environment).is_none());
    let home = ("HOME".to_owned(), folder.path().to_string_lossy().into_owned());
    let environment = GitEnvironment { variables: vec![home], ..environment };
    assert!(GitRunner::find(&project, &environment).is_some(), "the home folder");
    // A link from outside leads into it.
    let (other, mut linked) = stand_in("true");
    fs::create_dir(folder.path().join("project/.git")).unwrap();
    write_script(&project.join("git"), "true");
    let link = other.path().join("bin/git");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(project.join("git"), &link).unwrap();
    assert!(GitRunner::find(&project, &linked).is_none());
    linked.programs.extend(environment.programs);
    assert!(GitRunner::find(&project, &linked).is_some());
}

#[test]
fn pipe_that_git_would_read_is_an_error_at_once() {
    for (config, pipe) in [
        ("[include]\n\tpath = ../pipe\n", "pipe"),
        ("[Include] Path = \"../pipe\"\n", "pipe"),
        ("[includeIf \"gitdir:/\"]\npath=more\n", "pipe"),
        ("", ".gitignore"),
        ("", ".git/info/exclude"),
    ] {
        let (folder, environment) = stand_in("true");
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".git/info")).unwrap();
        fs::write(project.join(".git/config"), config).unwrap();
        fs::write(project.join(".git/more"), "[include]\npath = ../pipe\n").unwrap();
        let git = || GitRunner::find(&project, &environment).unwrap();
        assert!(git().query(&["x"], Vec::new()).is_ok(), "{config}");
        let made = Command::new("mkfifo").arg(project.join(pipe)).status().unwrap();
        assert!(made.success());
        let error = git().query(&["x"], Vec::new()).unwrap_err().to_string();
        assert!(error.contains(pipe) && error.contains("is a pipe or a device"), "{error}");
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments);
    assert!(command.output().unwrap().status.success(), "{arguments:?}");
}

#[test]
fn work_trees_of_a_clone_know_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let [main, linked, module] = ["main", "linked", "main/module"].map(|name| base.join(name));
    fs::create_dir(&main).unwrap();
    git(&main, &["init", "--quiet", "--initial-branch", "trunk"]);
    git(&main, &["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let tree = WorkTree::around(&main, None).unwrap();
    assert_eq!((tree.branch().as_deref(), tree.others()), (Some("trunk"), Vec::new()));
    git(&main, &["worktree", "add", "--quiet", "-b", "topic/one", "../linked"]);
    assert_eq!(tree.others(), std::slice::from_ref(&linked));
    fs::create_dir(linked.join("inner")).unwrap();
    let other = WorkTree::around(&linked.join("inner"), None).unwrap();
    assert_eq!((&other.root, &other.common_folder), (&linked, &tree.common_folder));
    assert_eq!(
        (other.branch().as_deref(), other.others()),
        (Some("topic/one"), vec![main.clone()])
    );
    git(&linked, &["checkout", "--quiet", "--detach"]);
    assert_eq!(other.branch(), None);
    // A submodule shares nothing with the repository around it.
    let source = main.to_str().unwrap();
    let allowed = "protocol.file.allow=always";
    git(&main, &["-c", allowed, "submodule", "--quiet", "add", source, "module"]);
    let submodule = WorkTree::around(&module, None).unwrap();
    assert_eq!((&submodule.git_folder, submodule.others()), (&submodule.common_folder, vec![]));
    assert_ne!(submodule.common_folder, tree.common_folder);
    // A folder that only claims to belong to the clone.
    let claimed = base.join("claimed");
    fs::create_dir(&claimed).unwrap();
    fs::copy(linked.join(".git"), claimed.join(".git")).unwrap();
    assert_eq!(WorkTree::around(&claimed, None), None);
    git(&main, &["worktree", "remove", "--force", "../linked"]);
    assert_eq!(tree.others(), Vec::<PathBuf>::new());
}
