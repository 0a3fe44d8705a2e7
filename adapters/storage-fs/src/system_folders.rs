//! Rejects folders of the operating system as projects, because writes there change the machine.
//!
//! Containers mount projects at `/work`, `/srv/x`, `/opt/x` or `/var/www/x`, and a
//! server keeps its data in `/var/lib/x`, so only folders that certainly belong to the system are
//! listed.

use std::path::{Component, Path};

/// These and everything below them, except [`PROJECT_PARENTS`].
const SYSTEM_TREES: [&str; 29] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/backups",
    "/var/lib/apt",
    "/var/lib/dbus",
    "/var/lib/dpkg",
    "/var/lib/pacman",
    "/var/lib/rpm",
    "/var/lib/systemd",
    "/var/lock",
    "/var/log",
    "/var/mail",
    "/var/run",
    "/var/spool",
    // macOS
    "/Applications",
    "/Library",
    "/System",
    "/var/db",
];
/// Only these folders themselves, because projects are below them.
const SYSTEM_PARENTS: [&str; 11] = [
    "/",
    "/home",
    "/root",
    "/var",
    "/var/cache",
    "/var/home",
    "/var/lib",
    "/var/roothome",
    // macOS
    "/Users",
    "/Volumes",
    "/var/folders",
];
/// Folders in [`SYSTEM_TREES`] below which there are projects.
const PROJECT_PARENTS: [&str; 4] = ["/run/media", "/run/user", "/usr/local/src", "/usr/src"];

/// Folders at the root of a Windows drive, and everything below them.
const DRIVE_TREES: [&str; 3] = ["program files", "program files (x86)", "windows"];

/// True if a folder belongs to the operating system. The path must be canonical.
pub fn is_system_folder(folder: &Path) -> bool {
    if matches!(folder.components().next(), Some(Component::Prefix(_))) {
        return is_system_folder_of_drive(folder);
    }
    // macOS has /etc, /tmp and /var there.
    let folder = match folder.strip_prefix("/private") {
        Ok(inside) => Path::new("/").join(inside),
        Err(_) => folder.to_owned(),
    };
    if SYSTEM_PARENTS.iter().any(|system| folder == Path::new(system)) {
        return true;
    }
    // Only below such a folder, not the folder itself.
    if let Some(parent) = folder.parent()
        && PROJECT_PARENTS.iter().any(|folder| parent.starts_with(folder))
    {
        return false;
    }
    SYSTEM_TREES.iter().any(|system| folder.starts_with(system))
}

/// As [`is_system_folder`], for a path with a drive.
fn is_system_folder_of_drive(folder: &Path) -> bool {
    let mut names = folder.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().to_ascii_lowercase()),
        _ => None,
    });
    match names.next() {
        // The root of the drive.
        None => true,
        Some(name) if name == "users" => names.next().is_none(),
        Some(name) => DRIVE_TREES.contains(&&*name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(windows)]
    #[test]
    fn windows_system_folders_are_no_project_folders() {
        for folder in [r"C:\", r"C:\Windows\System32", r"c:\program files\x", r"C:\Users"] {
            assert!(is_system_folder(Path::new(folder)), "{folder}");
        }
        for folder in [r"D:\work", r"C:\Users\u\x", r"C:\ProgramData\reqlore"] {
            assert!(!is_system_folder(Path::new(folder)), "{folder}");
        }
    }

    #[test]
    fn system_folders_are_no_project_folders() {
        let system = "/ /bin /boot/grub /dev/shm /etc /etc/ssh /home /lib /lib64/x /private/etc \
                      /private/var /proc/1 /root /run /run/user /run/lock/x /sbin /sys /usr \
                      /usr/bin /usr/local /usr/local/bin /usr/src /var /var/cache /var/lib \
                      /var/lib/dpkg/info /var/log/x /var/spool /System/Library /Users";
        for folder in system.split_whitespace() {
            assert!(is_system_folder(Path::new(folder)), "{folder}");
        }
        let projects = "/work /repo /app /builds/x /mnt /mnt/x /srv/x /opt/x /var/www /var/www/x \
                        /var/lib/reqlore /var/lib/jenkins/workspace/x /var/home/u/x /home/u/x \
                        /root/x /tmp/x /var/tmp/x /usr/src/app /usr/local/src/x /run/user/1000/x \
                        /run/media/u/disk/x /private/tmp/x /private/var/folders/ab/T/x \
                        /Users/u/x /Volumes/x /etcetera /library";
        for folder in projects.split_whitespace() {
            assert!(!is_system_folder(Path::new(folder)), "{folder}");
        }
    }
}
