from .html import environment as environment, style_sheet as style_sheet, to_html as to_html
from .markdown import bullets as bullets, plain as plain, to_markdown as to_markdown
from .table import (
    Cell as Cell,
    Part as Part,
    Row as Row,
    Table as Table,
    one_line as one_line,
    text_of as text_of,
)
from .terminal import to_rich as to_rich
