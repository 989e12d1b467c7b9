"""What declares a name in source code of many languages, and what only uses it."""

import pytest

from lmkrag.sentences.declarations import declares

DECLARED = [
    ("python", "MAX_RETRIES", "MAX_RETRIES = 3"),
    ("python", "MAX_RETRIES", "MAX_RETRIES: Final[int] = 3"),
    ("python", "timeout", "    timeout: float = 3"),
    ("python", "Status", "class Status(Enum):"),
    ("python", "RED", "class Color(Enum):\n    RED = 1"),
    ("ts", "MAX", "export const MAX = 3;"),
    ("ts", "UserId", "export type UserId = string;"),
    ("ts", "retries", "  retries?: number;"),
    ("ts", "Color", "export enum Color {"),
    ("ts", "Blue", "enum Color { Red, Blue }"),
    ("ts", "parse", "export function parse(a: string): void;"),
    ("go", "MaxRetries", "const MaxRetries = 3"),
    ("go", "MaxRetries", "const (\n\tMaxRetries = 3\n)"),
    ("go", "Handler", "type Handler func(*Context)"),
    ("go", "Timeout", '\tTimeout time.Duration `json:"timeout"`'),
    ("go", "Timeout", "\tTimeout time.Duration"),
    ("rust", "MAX", "pub const MAX: usize = 3;"),
    ("rust", "Result", "pub type Result<T> = std::result::Result<T, Error>;"),
    ("rust", "select", "macro_rules! select {"),
    ("rust", "name", "    pub name: String,"),
    ("rust", "Delay", "pub enum MissedTickBehavior {\n    Burst,\n    Delay,\n}"),
    ("java", "MAX", "    private static final int MAX = 3;"),
    ("java", "name", "    private String name;"),
    ("java", "parse", "    Object parse(String text) throws IOException;"),
    ("java", "LOWER", "public enum Policy {\n  LOWER,\n  UPPER;"),
    ("c", "UV_MAX", "#define UV_MAX 3"),
    ("c", "uv_run", "int uv_run(uv_loop_t*, uv_run_mode mode);"),
    ("c", "uv_loop_s", "struct uv_loop_s {"),
    ("c", "uv_t", "} uv_t;"),
    ("c", "uv_cb", "typedef void (*uv_cb)(uv_handle_t* handle);"),
    ("c", "uv_buf", "typedef struct uv_buf_s uv_buf;"),
    ("c", "count", "  unsigned int count;"),
    ("c", "UV_RUN", "typedef enum {\n  UV_RUN = 0,\n  UV_ONCE\n} uv_run_mode;"),
    ("c", "UV_ONCE", "typedef enum {\n  UV_RUN = 0,\n  UV_ONCE\n} uv_run_mode;"),
    ("cpp", "string_view", "using string_view = basic_string_view<char>;"),
    ("ruby", "LIMIT", "  LIMIT = 3"),
    ("ruby", "params", "  attr_accessor :params"),
    ("ruby", "build", "    def self.build(app)"),
    ("ruby", "limit", "      define_method(:limit) do"),
    ("csharp", "Count", "    public int Count { get; set; }"),
    ("csharp", "Max", "    public const int Max = 3;"),
    ("csharp", "Changed", "    public event EventHandler Changed;"),
    ("kotlin", "limit", "    val limit: Int = 3"),
    ("kotlin", "parse", "    fun parse(text: String): Int = text.toInt()"),
    ("kotlin", "parse", "    override fun parse(text: String) {"),
    ("kotlin", "parse", "fun String.parse(): Int {"),
    ("kotlin", "Registry", "object Registry {"),
    ("php", "LIMIT", "    const LIMIT = 3;"),
    ("php", "limit", "    private int $limit = 3;"),
    ("php", "LIMIT", "define('LIMIT', 3);"),
    ("php", "Active", "    case Active = 'a';"),
    ("shell", "LIMIT", "LIMIT=3"),
    ("shell", "limit", "  local limit=3"),
    ("shell", "run_all", "run_all() {"),
    ("proto", "user_id", "  int64 user_id = 1;"),
    ("proto", "User", "message User {"),
    ("sql", "users", "CREATE TABLE IF NOT EXISTS users ("),
    ("sql", "user_id", "  user_id INTEGER NOT NULL,"),
    ("yaml", "retries", "  retries: 3"),
    ("json", "retries", '  "retries": 3,'),
]
USED = [
    ("python", "Tokenizer", "    tokenizer: Tokenizer = Tokenizer.from_file(path)"),
    ("ts", "Options", "  const options: Options = read();"),
    ("python", "MAX_RETRIES", "for _ in range(MAX_RETRIES):"),
    ("python", "MAX_RETRIES", "    MAX_RETRIES,"),
    ("python", "timeout", "    connect(timeout=timeout)"),
    ("python", "timeout", "    if self.timeout == timeout:"),
    ("python", "RED", "    return Color.RED"),
    ("ts", "MAX", "  return MAX;"),
    ("ts", "retries", "  run(options.retries);"),
    ("ts", "parse", "  await parse(text);"),
    ("ts", "parse", "  return parse(text);"),
    ("go", "Handler", "\tvar h Handler = nil"),
    ("go", "MaxRetries", "\tif n > MaxRetries {"),
    ("rust", "select", "    select!(a, b)"),
    ("rust", "Result", "fn f() -> Result<(), Error> {"),
    ("java", "MAX", "        if (count > MAX) {"),
    ("java", "name", "        return name;"),
    ("java", "parse", "        parser.parse(text);"),
    ("c", "uv_run", "  return uv_run(loop, mode);"),
    ("c", "uv_run", "  uv_run(loop, mode);"),
    ("c", "uv_t", "  uv_t* handle = get();"),
    ("c", "UV_MAX", "  if (n > UV_MAX) return 1;"),
    ("ruby", "params", "      params[:id]"),
    ("kotlin", "parse", "    val x = parse(text)"),
    ("php", "LIMIT", "    return self::LIMIT;"),
    ("shell", "LIMIT", '  echo "$LIMIT"'),
    ("comment", "Retry", "Retry the request"),
    ("comment", "Retry", "// Retry later"),
]


@pytest.mark.parametrize(("language", "name", "text"), DECLARED)
def test_a_declaration(language, name, text):
    assert declares(text, [name]) and declares(f"other();\n{text}\n  other\n", ["Absent", name])
    assert not declares(text, [f"{name}s", "other"])


@pytest.mark.parametrize(("language", "name", "text"), USED)
def test_no_declaration(language, name, text):
    assert not declares(text, [name]) and not declares(f"other();\n{text}\n  other\n", [name])


def test_declares_by_example():
    assert (
        declares("MAX_RETRIES = 3", ["MAX_RETRIES"]),
        declares("retry(MAX_RETRIES)", ["MAX_RETRIES"]),
    ) == (
        True,
        False,
    )
