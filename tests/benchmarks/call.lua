-- What wrk sends: tools/call adding two integers, as a client of one era or the other does.
-- Arguments: "modern", or a legacy revision and perhaps the id of a session.
local body, id, headers = nil, 0, {
  ["Content-Type"] = "application/json",
  ["Accept"] = "application/json, text/event-stream",
}
local call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call",'
  .. '"params":{"name":"add","arguments":{"a":1,"b":2}%s}}'
local meta = ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
  .. '"io.modelcontextprotocol/clientInfo":{"name":"wrk","version":"1"},'
  .. '"io.modelcontextprotocol/clientCapabilities":{}}'

function init(arguments)
  local era, session = arguments[1], arguments[2]
  if era == "modern" then
    headers["MCP-Protocol-Version"] = "2026-07-28"
    headers["Mcp-Method"] = "tools/call"
    headers["Mcp-Name"] = "add"
    body = call:format(0, meta):gsub('"id":0', '"id":%%d')
  else
    headers["MCP-Protocol-Version"] = era
    headers["Mcp-Session-Id"] = session
    body = call:gsub("%%s", "")
  end
end

function request()
  id = id + 1
  return wrk.format("POST", nil, headers, body:format(id))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(("\n%d %d %d\n"):format(summary.requests, summary.duration,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end
