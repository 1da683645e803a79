#include "common/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/process.h"
#include "common/ranges.h"
#include "common/text.h"

namespace common {
namespace {

// How a name ends, its words joined, one or several of it.
constexpr std::array<std::string_view, 32> kSecretNames = {
    "password",   "passwd",        "passphrase",    "secret",
    "credential", "apikey",        "accesskey",     "accesskeyid",
    "secretkey",  "privatekey",    "authkey",       "accountkey",
    "servicekey", "storagekey",    "signingkey",    "encryptionkey",
    "licensekey", "wandbkey",      "ngckey",        "masterkey",
    "cometkey",   "decryptionkey", "authorization", "apitoken",
    "authtoken",  "accesstoken",   "hubtoken",      "hftoken",
    "passwort",   "kennwort",      "passcode",      "bearer"};

// The last word of a name.
constexpr std::array<std::string_view, 2> kSecretWords = {"_token", "_pwd"};

// A token of these is one of a text, not of an account.
constexpr std::array<std::string_view, 45> kTextTokens = {
    "pad",    "padding",     "eos",         "bos",      "eod",     "eot",
    "unk",    "unknown",     "mask",        "sep",      "cls",     "class",
    "image",  "video",       "audio",       "vision",   "speech",  "text",
    "per",    "special",     "extra",       "start",    "end",     "begin",
    "prefix", "suffix",      "middle",      "fim",      "forced",  "decoder",
    "first",  "last",        "next",        "new",      "stop",    "think",
    "break",  "placeholder", "initializer", "response", "trigger", "separator",
    "max",    "min",         "assistant"};

// "--hubToken", "HUB-TOKEN" -> "hub_token".
std::string Normalized(std::string_view name) {
  std::string normalized;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (i > 0 && std::isupper(c) != 0 &&
        std::islower(static_cast<unsigned char>(name[i - 1])) != 0) {
      normalized += '_';
    }
    normalized +=
        std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '_';
  }
  return normalized;
}

// Without the quotes and brackets around it.
std::string_view Bare(std::string_view word) {
  constexpr std::string_view kAround = "\"'[]{},";
  const std::size_t begin = word.find_first_not_of(kAround);
  const std::size_t end = word.find_last_not_of(kAround);
  return begin == word.npos ? "" : word.substr(begin, end + 1 - begin);
}

// Whether a value is chosen to be hard to guess: letters with digits or signs,
// and no path, no name of a host and no words.
bool IsGuarded(std::string_view value) {
  static const Pattern letters(R"([A-Za-z])");
  static const Pattern others(R"([0-9!@#%^&*])");
  static const Pattern number(R"(^[0-9]{7,}$)");
  static const Pattern plain(R"(^[^\s/]{6,}$)");
  return number.IsIn(value) ||
         (plain.IsIn(value) && letters.IsIn(value) && others.IsIn(value) &&
          value.find('.') == value.npos);
}

// 24 letters and digits or more, as the keys of services are.
bool IsKey(std::string_view value) {
  static const Pattern key(R"(^[A-Za-z0-9]{24,}$)");
  static const Pattern digits(R"(\d.*\d)");
  static const Pattern letters(R"([A-Za-z])");
  return key.IsIn(value) && digits.IsIn(value) && letters.IsIn(value);
}

// Of names that are other things, too: the value decides. `words`: those of the
// name, each after "_".
bool IsSecretOf(std::string_view name, std::string_view words,
                std::string_view value) {
  static const Pattern digits(R"(^[0-9]{4,}$)");
  value = Bare(value);
  const std::string_view last = words.substr(words.rfind('_') + 1);
  if (last == "pin" || last == "otp") {
    return digits.IsIn(value) || IsGuarded(value);
  }
  const std::size_t colon = value.find(':');
  if (name == "u" || name == "auth" || name.ends_with("user")) {
    return colon != value.npos && colon > 0 &&
           IsGuarded(value.substr(colon + 1));
  }
  if (name == "cookie") {
    return value.find('=') != value.npos;
  }
  return name.ends_with("pass") || last == "pw" ? IsGuarded(value)
                                                : name == "key" && IsKey(value);
}

// The words of a name, each after "_".
std::string WordsOf(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  return "_" + Normalized(name);
}

// Whether a name is that of a secret, whatever its value.
bool IsSecretName(std::string_view name) {
  std::string joined = WordsOf(name);
  std::erase(joined, '_');
  const std::string_view one =
      std::string_view(joined).substr(0, joined.find_last_not_of('s') + 1);
  return std::ranges::any_of(kSecretNames, [&](std::string_view known) {
    return joined.ends_with(known) || one.ends_with(known);
  });
}

// Whether this is the value of a secret.
bool IsSecret(std::string_view name, std::string_view value) {
  static const Pattern no_secret(
      R"((?i)^(true|false|none|null|yes|no|<.*>|\[.*\]|\{.*\}|)"
      R"(\$(\w+|\{.*\}|\(.*\))|\**)$)");
  static const Pattern number(R"(^[0-9.eE+-]*$)");
  constexpr std::size_t kLeastToken = 8;  // characters
  const std::string words = WordsOf(name);
  std::string joined = words;
  std::erase(joined, '_');
  if (no_secret.IsIn(value)) {
    return false;
  }
  if (IsSecretName(name) || IsSecretOf(joined, words, value)) {
    return true;
  }
  const auto* const found = std::ranges::find_if(
      kSecretWords,
      [&](std::string_view known) { return words.ends_with(known); });
  if (found == kSecretWords.end()) {
    return false;
  }
  const std::string_view rest =
      std::string_view(words).substr(0, words.size() - found->size());
  static const Pattern path(R"(^[.~]|/)");  // $PWD, the current folder
  return *found == "_pwd"
             ? !rest.empty() || !path.IsIn(value)
             : value.size() >= kLeastToken && !number.IsIn(value) &&
                   !Contains(kTextTokens, rest.substr(rest.rfind('_') + 1));
}

// The text without the last group of each match that `is_secret` accepts.
template <typename Predicate>
std::string Hide(std::string_view text, const Pattern& pattern,
                 const Predicate& is_secret) {
  std::string hidden;
  std::size_t done = 0;
  std::size_t from = 0;
  for (auto found = pattern.Find(text); !found.empty();
       found = pattern.Find(text, from)) {
    const auto at = static_cast<std::size_t>(found.back().data() - text.data());
    from = at;  // there may be another name
    if (is_secret(found)) {
      hidden.append(text.substr(done, at - done)).append(kHidden);
      from = done = at + found.back().size();
    }
  }
  return hidden.append(text.substr(done));
}

// Hides what is known by its format, or by the name before it in this word.
std::string WithoutParts(std::string text) {
  static const std::array formats = {
      Pattern(R"(://[^\s/@:'"]*:([^\s/'"]+)@)"),
      Pattern(R"(://([^\s/@:'"]{20,})@)"),
      Pattern(R"((?i)[?&](?:sig|signature|key|x-amz-[a-z-]+)=([^&\s'"]+))"),
      Pattern(R"((?i)\bbearer\s+([^\s'"]{10,}))"),
      Pattern(R"((?i)\b(?:set-)?cookie:\s*([^\s'"=:]+=[^'"\n]+))"),
      Pattern(R"((?i)//(?:hooks\.slack\.com/services|discord(?:app)?\.com/api)"
              R"(/webhooks)/([^\s'"]+))"),
      Pattern(
          R"((?i)\bauthorization["']?\s*[:=]\W*(?:(?:basic|token|digest)\s+)?(\w[^\s'"]+))"),
      Pattern(
          R"(\b(hf_[A-Za-z0-9]{30,}|gh[opsur]_\w{20,}|github_pat_\w{20,}|)"
          R"(glpat-[\w-]{16,}|nvapi-[\w-]{20,}|xox[a-z]-[0-9][\w-]{9,}|)"
          R"(sk-[\w-]*[A-Za-z0-9]{16}[\w-]*|AIza[\w-]{35}|)"
          R"((?:npm|r8|dckr_pat|dop_v1)_\w{20,}|[rs]k_(?:live|test)_\w{16,}|)"
          R"(dapi[A-Za-z0-9]{32}(?:-\d)?|pypi-[\w-]{16,}|hvs\.[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|)"
          R"((?:AKIA|ASIA)[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*))")};
  for (const Pattern& format : formats) {
    text = Hide(text, format, [](const auto&) { return true; });
  }
  // A name has those of the tables around it: `wandb: {key: ...`.
  static const std::string name =
      R"(([A-Za-z][\w.-]*(?:["']?[=:]\s*\{\s*["']?[A-Za-z][\w.-]*)*)["']?)";
  static const std::array assignments = {
      Pattern(name + R"x([=:]\s*"((?:[^"\\]|\\.)+)")x"),
      Pattern(name + R"([=:]\s*'([^']+)')"),
      Pattern(name + R"((?:=|:[ \t]*|[ \t]+=[ \t]+)["']?([^\s&,;}'"\]]+))")};
  for (const Pattern& assigned : assignments) {
    text = Hide(text, assigned,
                [](const auto& found) { return IsSecret(found[1], found[2]); });
  }
  return text;
}

constexpr int kDeepest = 4;  // shells within words of shells

std::string InShell(std::string_view text, int depth);

// Reads words in order, since the name of a secret may be the word before it.
class Reader {
 public:
  explicit Reader(int depth) : depth_(depth) {}

  std::string Read(const std::string& word) {
    static const Pattern option(
        R"(^["'\[{(,]*(-+[A-Za-z][\w.-]*|[A-Za-z][\w.-]*:))"
        R"([\]"',:]*$)");
    static const Pattern bare(R"(^[A-Za-z][\w-]*$)");
    static const Pattern assigned(R"((?s)^([^\s=]+)=(.*)$)");
    const std::string name = std::exchange(name_, "");
    const std::string before = std::exchange(bare_, "");
    if (logs_in_ && IsKey(Bare(word))) {
      return std::string(kHidden);
    }
    logs_in_ = logs_in_ || Bare(word) == "login";
    if (!name.empty() && !word.starts_with('-') && IsSecret(name, word)) {
      return std::string(kHidden);
    }
    if (!before.empty() && IsSecretName(before) && IsGuarded(Bare(word))) {
      return std::string(kHidden);
    }
    bare_ = bare.IsIn(Bare(word)) ? Bare(word) : "";
    if (const auto found = option.Find(word); !found.empty()) {
      name_ = found[1].substr(0, found[1].find(':'));
      return word;
    }
    if (const auto found = assigned.Find(word);
        !found.empty() && IsSecret(found[1], found[2])) {
      return fmt::format("{}={}", found[1], kHidden);
    }
    const bool has_words = word.find_first_of(" \t\n") != std::string::npos;
    return has_words && depth_ < kDeepest ? InShell(word, depth_ + 1)
                                          : WithoutParts(word);
  }

 private:
  int depth_;
  std::string name_;      // of the next word
  std::string bare_;      // the last word, which is not written as a name
  bool logs_in_ = false;  // `wandb login KEY`
};

// What a shell makes of a word.
std::string Unquoted(std::string_view word) {
  std::string text;
  char quote = '\0';
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c == '\\' && quote != '\'' && i + 1 < word.size()) {
      text += word[++i];
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    } else {
      text += c;
    }
  }
  return text;
}

// Words that have no secret stay as they are written.
std::string InShell(std::string_view text, int depth) {
  static const Pattern words(
      R"((?s)((?:'[^']*'|"(?:[^"\\]|\\.)*"|\\[^\n]|[^\s'"\\])+|['"]))");
  Reader reader(depth);
  // Headers and URLs first, which are several words of a text.
  const std::string whole = WithoutParts(std::string(text));
  std::string hidden;
  std::size_t done = 0;
  for (auto found = words.Find(whole); !found.empty();
       found = words.Find(whole, done)) {
    const auto at = static_cast<std::size_t>(found[0].data() - whole.data());
    const std::string word = Unquoted(found[0]);
    const std::string read = reader.Read(word);
    hidden += whole.substr(done, at - done);
    hidden += read == word      ? std::string(found[0])
              : read == kHidden ? read
                                : ShellLine({read});
    done = at + found[0].size();
  }
  return hidden + whole.substr(done);
}

}  // namespace

std::vector<std::string> WithoutSecrets(std::vector<std::string> words) {
  Reader reader(0);
  for (std::string& word : words) {
    word = reader.Read(word);
  }
  return words;
}

std::string WithoutSecrets(std::string_view text) { return InShell(text, 0); }

}  // namespace common
