//! Libraries of the system, loaded when the program runs.
//!
//! RocksDB and LevelDB have C interfaces that have been stable for a decade, and every distribution packages
//! them. Loading them by name needs no headers, no C++ compiler and no build of a million lines, and a
//! library that is missing is a sentence in the report instead of a build that fails. [`functions!`] makes a
//! table of the functions an adapter calls.

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_void};

/// A pointer to something that belongs to the library.
pub type Handle = *mut c_void;

/// A handle that many threads use: one of a database, or of options that nobody changes any more.
pub struct Shared(pub Handle);

// SAFETY: RocksDB and LevelDB let any thread use and close what such handles stand for.
unsafe impl Send for Shared {}
// SAFETY: and many threads at once, without anything between them.
unsafe impl Sync for Shared {}

/// Loads the first of `names` that the system has, or the file that the environment variable `variable`
/// names.
///
/// # Errors
/// No such library: the sentence says what to install.
pub fn load(names: &[&str], variable: &str, package: &str) -> Result<Library, String> {
    let chosen = std::env::var(variable).ok();
    let names: Vec<&str> = chosen.as_deref().map_or_else(|| names.to_vec(), |name| vec![name]);
    let mut why = String::new();
    for name in &names {
        // SAFETY: the library's initialisers run: those of RocksDB and LevelDB register options and set up
        // constants, and ask nothing of the program. Whoever sets the variable chooses the code that runs, as
        // with LD_PRELOAD.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!("not found ({why}); install {package}, or name the library's file in {variable}"))
}

/// A struct of C functions, loaded by their names.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident: $($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(#[$about])*
        pub struct $table {
            $(
                // SAFETY: whoever calls it keeps to the header's contract; each adapter says how.
                $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,
            )*
            /// Keeps the functions' code where it is.
            _library: libloading::Library,
        }

        impl $table {
            /// Looks every function up.
            ///
            /// # Errors
            /// The library lacks one of them: it is too old or too new.
            pub fn new(library: libloading::Library) -> std::result::Result<Self, String> {
                $(
                    // SAFETY: the type is that of the function's declaration in the library's header.
                    let $name = *unsafe { library.get(stringify!($name)) }
                        .map_err(|_| format!("the library has no function {}", stringify!($name)))?;
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

pub(crate) use functions;

/// The version in the name of the file that a loaded library came from: 7.8.3 of `librocksdb.so.7.8.3`.
pub fn loaded_version(library: &str) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let start = format!("/{library}.so.");
    maps.lines().find_map(|line| line.split_once(&start).map(|(_, version)| version.to_owned()))
}

/// A name as C wants it.
///
/// # Errors
/// It holds a zero byte.
pub fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} holds a zero byte"))
}

/// Takes an error message that a C function left in `*error`, if it left one, and gives its memory back by
/// `free`.
///
/// # Errors
/// The message.
pub fn check(error: *mut c_char, free: impl FnOnce(Handle)) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, so the library put a string of its own there that ends in a zero byte and that only
    // we hold.
    let message = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    free(error.cast());
    Err(message)
}
