"""The agent in LangGraph, whose tools call the MCP server."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from mcp import Client, StdioServerParameters
from model import ARGUMENTS, COMMAND, Call, decide


def respond(state: MessagesState) -> dict[str, Any]:
    """Answer as a model does."""
    wish = next(str(each.content) for each in state["messages"] if isinstance(each, HumanMessage))
    results = [str(each.content) for each in state["messages"] if isinstance(each, ToolMessage)]
    decided = decide(wish, results)
    if not isinstance(decided, Call):
        return {"messages": [AIMessage(decided)]}
    call = {
        "name": decided.name,
        "args": dict(decided.arguments),
        "id": str(len(results)),
        "type": "tool_call",
    }
    return {"messages": [AIMessage("", tool_calls=[call])]}


async def tools_of(client: Client) -> list[StructuredTool]:
    """The tools of an MCP server as tools of LangChain."""

    def tool(name: str, description: str | None, schema: dict[str, Any]) -> StructuredTool:
        async def call(**arguments: Any) -> str:
            done = await client.call_tool(name, arguments)
            text = "".join(part.text for part in done.content if part.type == "text")
            if done.is_error:
                raise ToolException(text)
            return text

        return StructuredTool(
            name=name,
            description=description or name,
            args_schema=schema,
            coroutine=call,
            handle_tool_error=True,
        )

    listed = await client.list_tools()
    return [tool(each.name, each.description, each.input_schema) for each in listed.tools]


async def answer(wish: str) -> dict[str, Any]:
    """What ci-evals calls: a fresh server for each run."""
    async with Client(StdioServerParameters(command=COMMAND, args=ARGUMENTS)) as client:
        graph = (
            StateGraph(MessagesState)
            .add_node("model", respond)
            .add_node("tools", ToolNode(await tools_of(client)))
            .add_edge(START, "model")
            .add_conditional_edges("model", tools_condition)
            .add_edge("tools", "model")
            .compile()
        )
        state: dict[str, Any] = await graph.ainvoke({"messages": [("user", wish)]})
        return state
