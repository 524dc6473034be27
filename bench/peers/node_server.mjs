// Runs the Node reference server: `node node_server.mjs PORT [DATA_DIR]`; without a directory it
// keeps everything in memory.
import { DurableStreamTestServer } from "@durable-streams/server"

const [port, dataDir] = process.argv.slice(2)
const server = new DurableStreamTestServer({ port: Number(port), host: "127.0.0.1", dataDir })
console.log(await server.start())
