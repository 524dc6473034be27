// Runs the Node reference server in memory on a port of its own and prints its URL.
import { DurableStreamTestServer } from "@durable-streams/server"

const server = new DurableStreamTestServer({ port: 0, host: "127.0.0.1", longPollTimeout: 500 })
console.log(await server.start())
