// The suite's own command line finds no tests under this vitest, since it points at a file inside
// node_modules; its one exported function works from a test file of ours.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const { CONFORMANCE_URL, CONFORMANCE_LONG_POLL_MS } = process.env

runConformanceTests({
  baseUrl: CONFORMANCE_URL,
  longPollTimeoutMs: Number(CONFORMANCE_LONG_POLL_MS),
  subscriptions: true,
})
