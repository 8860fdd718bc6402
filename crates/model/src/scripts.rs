//! What programs that run others' code were told to run.

use crate::programs::{base_name, runs};

/// How such a program reads its arguments.
struct Options {
    /// Letters behind one dash that take a value, the rest of the word or the next one...
    with_value: &'static str,
    /// ... or only the rest of the word...
    attached: &'static str,
    /// ... or code...
    code: &'static str,
    /// ... or the name of what is run.
    names: &'static str,
    /// Words that the next one belongs to.
    words: &'static [&'static str],
    /// Words before code.
    code_words: &'static [&'static str],
    /// Words before the name of what is run.
    name_words: &'static [&'static str],
    /// First words that say only that something is run.
    commands: &'static [&'static str],
}

const NONE: Options = Options {
    with_value: "",
    attached: "",
    code: "",
    names: "",
    words: &[],
    code_words: &[],
    name_words: &[],
    commands: &[],
};

/// By the beginning of the name, as their manuals have it.
const PROGRAMS: [(&str, Options); 10] = [
    (
        "python",
        Options {
            with_value: "WX",
            code: "c",
            names: "m",
            words: &["--check-hash-based-pycs"],
            ..NONE
        },
    ),
    (
        "perl",
        Options {
            with_value: "I",
            attached: "CDFMVdimx",
            code: "eE",
            ..NONE
        },
    ),
    (
        "ruby",
        Options {
            with_value: "CEIr",
            attached: "FKTWix",
            code: "e",
            words: &["--encoding", "--external-encoding", "--internal-encoding"],
            ..NONE
        },
    ),
    (
        "php",
        Options {
            with_value: "Scdtz",
            code: "BERr",
            names: "Ff",
            ..NONE
        },
    ),
    (
        "lua",
        Options {
            with_value: "lj",
            attached: "O",
            code: "e",
            ..NONE
        },
    ),
    (
        "node",
        Options {
            with_value: "Cr",
            code: "ep",
            words: &[
                "--conditions",
                "--require",
                "--import",
                "--loader",
                "--title",
                "--env-file",
            ],
            code_words: &["--eval", "--print", "-pe"],
            ..NONE
        },
    ),
    (
        "deno",
        Options {
            with_value: "c",
            words: &["--config", "--import-map", "--location", "--seed", "--cert"],
            commands: &["run", "serve", "test", "bench", "task"],
            code_words: &["eval"],
            ..NONE
        },
    ),
    (
        "bun",
        Options {
            with_value: "cdr",
            code: "ep",
            words: &["--config", "--preload", "--cwd", "--env-file"],
            code_words: &["--eval", "--print"],
            commands: &["run", "test"],
            ..NONE
        },
    ),
    (
        "java",
        Options {
            words: &[
                "-cp",
                "-classpath",
                "--class-path",
                "-p",
                "--module-path",
                "--upgrade-module-path",
                "--add-exports",
                "--add-modules",
                "--add-opens",
                "--add-reads",
                "--enable-native-access",
                "--limit-modules",
                "--patch-module",
                "--source",
            ],
            name_words: &["-jar", "-m", "--module"],
            ..NONE
        },
    ),
    (
        "dotnet",
        Options {
            words: &[
                "--additionalprobingpath",
                "--additional-deps",
                "--depsfile",
                "--fx-version",
                "--roll-forward",
                "--runtimeconfig",
            ],
            commands: &["exec"],
            ..NONE
        },
    ),
];

/// What a word that is an option says of the next one.
enum Next {
    Option,
    Value,
    Code,
    Name,
}

/// What a program that runs others' code was given to run, without its folder: a file, or a module or class. Empty if it is no such
/// program, or was not told so.
pub(crate) fn script<'a>(exe: &str, args: &'a [String]) -> &'a str {
    let name = base_name(exe);
    let mut programs = PROGRAMS.iter();
    let known = programs.find(|(of, _)| runs(name).is_some() && name.starts_with(of));
    let Some((_, options)) = known else {
        return "";
    };
    let mut args = args.iter().skip(1).map(String::as_str);
    let mut is_first = true;
    while let Some(arg) = args.next() {
        let command = std::mem::take(&mut is_first) && options.commands.contains(&arg);
        let ran = match options.next(arg) {
            Some((Next::Code, _)) => Some(""),
            Some((Next::Name, "")) => Some(args.next().unwrap_or_default()),
            Some((Next::Name, name)) => Some(name),
            Some((Next::Value, "")) => args.next().and(None),
            Some(_) => None,
            None if command => None,
            None => Some(arg),
        };
        if let Some(ran) = ran {
            return base_name(ran);
        }
    }
    ""
}

impl Options {
    /// What an option takes, and the part of it that is in the same word; `None` of what is no option.
    fn next<'a>(&self, arg: &'a str) -> Option<(Next, &'a str)> {
        for (words, next) in [
            (self.words, Next::Value),
            (self.code_words, Next::Code),
            (self.name_words, Next::Name),
        ] {
            if words.contains(&arg) {
                return Some((next, ""));
            }
        }
        let letters = match arg.strip_prefix('-')? {
            // What is run comes from the standard input.
            "" => return Some((Next::Code, "")),
            letters => letters,
        };
        // Of long options only those above take another word.
        let letters = if letters.starts_with('-') {
            ""
        } else {
            letters
        };
        for (at, letter) in letters.char_indices() {
            let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            let next = match letter {
                of if self.code.contains(of) => Next::Code,
                of if self.names.contains(of) => Next::Name,
                of if self.with_value.contains(of) => Next::Value,
                of if self.attached.contains(of) => Next::Option,
                _ => continue,
            };
            return Some((next, rest));
        }
        Some((Next::Option, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_is_the_first_word_that_is_no_option() {
        for (exe, args, ran) in [
            (
                "node",
                "node --no-warnings -r dotenv /srv/app/server.js 8080",
                "server.js",
            ),
            ("node", "node -pe 1+1", ""),
            ("node", "node", ""),
            (
                "python3.11",
                "python3 -X dev -m http.server 80",
                "http.server",
            ),
            ("python3.11", "python3 -c spawn_main(5)", ""),
            ("python3.11", "python3 -uc code x.py", ""),
            ("python3.11", "python3 -u - x.py", ""),
            ("python3.11", "python3 -Im pip install", "pip"),
            ("python3.11", "python3 -Wignore -u train.py", "train.py"),
            ("perl", "perl -lane print x.txt", ""),
            ("perl", "perl -w -I lib -Mstrict bin/tool.pl a", "tool.pl"),
            ("ruby", "ruby -rjson -W0 worker.rb", "worker.rb"),
            ("php8.2", "php -d memory_limit=1G -f job.php", "job.php"),
            ("luajit", "luajit -joff run.lua", "run.lua"),
            ("java", "java -Xmx1g -cp a.jar:b.jar org.Main x", "org.Main"),
            (
                "java",
                "java --add-opens java.base/java.lang=ALL-UNNAMED -jar /opt/app.jar",
                "app.jar",
            ),
            ("java", "java -p mods -m app/org.Main", "org.Main"),
            ("deno", "deno run --allow-net server.ts", "server.ts"),
            ("bun", "bun x.ts", "x.ts"),
            ("dotnet", "dotnet exec --depsfile a.json app.dll", "app.dll"),
            (
                "beam.smp",
                "beam.smp -- -root /usr/lib/erlang -progname erl",
                "",
            ),
            ("nginx", "nginx conf", ""),
        ] {
            let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
            assert_eq!(script(&format!("/usr/bin/{exe}"), &args), ran, "{args:?}");
        }
    }
}
