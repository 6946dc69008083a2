// The search of the web pages runs in a worker, and browsers start none for a page that is a file. There this stands in
// for Worker, with as much of it as the search calls: the worker's script runs in a hidden frame of the page.
if (location.protocol === "file:") {
  window.Worker = class {
    onmessage = null;
    onerror = null;
    #frame = document.createElement("iframe");
    #early = []; // what was posted before the script had run

    constructor(script) {
      this.#frame.hidden = true;
      this.#frame.srcdoc = "<body></body>";
      this.#frame.onload = () => this.#run(new URL(script, location.href).href);
      document.body.append(this.#frame);
    }

    postMessage(data) {
      if (this.#early) this.#early.push(data);
      else setTimeout(() => this.#frame.contentWindow?.onmessage({ data }));
    }

    terminate() {
      this.#frame.remove();
    }

    #run(address) {
      const worker = this.#frame.contentWindow;
      worker.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = worker.document.createElement("script");
      script.src = address;
      script.onerror = (event) => this.onerror?.(event);
      script.onload = () => {
        const early = this.#early;
        this.#early = null;
        early.forEach((data) => this.postMessage(data));
      };
      worker.document.body.append(script);
    }
  };
}
